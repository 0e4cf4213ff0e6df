"""A sweep on a GPU that is made up: the real driver and the real poller, ranks and NVML in a script."""

from __future__ import annotations

import io
import itertools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.drive import recorded_launches
from bench.drive.driver import SweepInterrupted, run_sweep
from bench.drive.telemetry import LaunchWatch, Telemetry
from bench.launch.interrupts import Interrupts
from bench.launch.launcher import LaunchEnd
from bench.sweep.expand import MachineFacts
from bench.telemetry import nvml
from bench.telemetry.watch import GpuWatch
from tests.fake_nvml import GIB, OWN_PID, FakeGpu, FakeNvml
from tests.integration import trivial
from tests.patience import HANG_S, PATIENCE_S, wait_until

_TICK_S = 0.02
_SAMPLES = 200


@pytest.fixture(autouse=True)
def not_hung() -> Iterator[None]:
    """Forget before and after that NVML ever hung in this process."""
    nvml.hangs.forget()
    yield
    nvml.hangs.forget()


class GpuLauncher(trivial.InstantLauncher):
    """Let the poller take its samples, then answer as a rank on the GPU does."""

    def __init__(self, watch: GpuWatch, processes: Callable[[int], list[tuple[int, int]]]) -> None:
        super().__init__(self.answer)
        self._watch = watch
        self._processes = processes
        self.running = False

    def listed(self) -> list[tuple[int, int]]:
        """List who computes on the GPU now."""
        return self._processes(len(self.launched)) if self.running else []

    def run(self, *arguments: Any, **options: Any) -> LaunchEnd:
        """Run a launch."""
        self.running = True
        wait_until(lambda: len(self._samples()) >= _SAMPLES or bool(self._watch.problem), "samples", pause_s=0.005)
        end = super().run(*arguments, **options)
        self.running = False
        return replace(end, pids=(OWN_PID,))

    def answer(self, folder: Path, rank: int) -> dict[str, Any]:
        """Say when the timed part was: among the samples, 0.02 s of the made-up clock a reading."""
        document = trivial.answer_of(folder, rank) | {"outcome": "ok", "reason": None, "error_text": None}
        columns = {"gpu_uuid": "GPU-a", "valid_tokens": 1000, "timed_s": 1.0, "flags": []}
        samples = self._samples()
        if samples:
            more_s = 0.0 if len(samples) >= _SAMPLES else 60.0  # it goes on where the polling ended
            edges = {"timed_from_s": samples[2].monotonic_s, "timed_to_s": samples[-2].monotonic_s + more_s}
            held = {name.replace("timed", "held"): at_s for name, at_s in edges.items()}
            document["timing"] = {"pid": OWN_PID, **edges, **held, "reserved_bytes": 8 * GIB}
        return document | {"columns": columns, "rank": rank}

    def _samples(self) -> Any:
        tracks = self._watch.tracks()
        return tracks[0].samples if tracks else ()


def sweep_on_gpu(
    folder: Path,
    processes: Callable[[int], list[tuple[int, int]]] = lambda launch: [(OWN_PID, 9 * GIB)],
    call_limit_s: float = PATIENCE_S,
    **gpu: Any,
) -> tuple[GpuLauncher, list[dict[str, Any]]]:
    """Run a sweep of one trial in one round; give the launcher and every launch's row."""
    ticks = itertools.count()

    def clock() -> float:
        return next(ticks) * _TICK_S

    launchers: list[GpuLauncher] = []
    fake = FakeGpu(
        processes=lambda s: launchers[0].listed(),
        used_bytes=lambda s: GIB + sum(count for _, count in launchers[0].listed()),
        **gpu,
    )
    watch = GpuWatch(FakeNvml([fake], clock), clock, period_s=0.001, call_limit_s=call_limit_s)
    launchers.append(GpuLauncher(watch, processes))
    progress = trivial.Quiet()
    facts = MachineFacts("cuda", 1, gpu_uuids=("GPU-a",))
    sweep = trivial.sweep_of({"seed": [0]}, {"device": "cuda"})
    telemetry = Telemetry(facts.gpu_uuids, watch, cool_down_s=0.0)
    run_sweep(sweep, folder, facts, progress, launcher=launchers[0], telemetry=telemetry)
    return launchers[0], [dict(row) for row in progress.rows]


def test_energy_and_health_of_a_launch_are_in_its_row(tmp_path: Path) -> None:
    """From the poller through the driver into the table: 300 W is 300 J a second, over all tokens of the timed part."""
    _, (row,) = sweep_on_gpu(tmp_path / "results")
    assert row["flags"] == []
    assert row["power_mean_w"] == 300.0
    assert row["telemetry_samples"] >= _SAMPLES - 5
    assert row["joules_per_gpu"] > 300.0 * 5
    assert row["joules_per_valid_token"] == row["joules_per_gpu"] / 1000
    assert (row["outside_torch_bytes"], row["outside_torch_method"]) == (GIB, "process")
    assert (row["foreign_processes"], row["driver_version"]) == (0, "550.54.15")
    table = pd.read_parquet(io.BytesIO((tmp_path / "results" / "results.parquet").read_bytes()))
    assert table["joules_per_gpu"].tolist() == [row["joules_per_gpu"]]


def test_stranger_on_the_gpu_makes_the_launch_run_once_more(tmp_path: Path) -> None:
    """F36: a process that computes there meanwhile is found, and the second launch is the one in the table."""

    def processes(launch: int) -> list[tuple[int, int]]:
        return [(OWN_PID, 9 * GIB)] + ([(99, GIB)] if launch == 0 else [])

    launcher, rows = sweep_on_gpu(tmp_path / "results", processes)
    assert [row["flags"] for row in rows] == [["gpu_shared"], []]
    assert [row["foreign_processes"] for row in rows] == [1, 0]
    assert len(launcher.launched) == 2
    table = pd.read_parquet(io.BytesIO((tmp_path / "results" / "results.parquet").read_bytes()))
    assert table["attempt"].tolist() == [1]


def test_stranger_that_stays_is_not_waited_for(tmp_path: Path) -> None:
    """Twice at most."""
    _, rows = sweep_on_gpu(tmp_path / "results", lambda launch: [(OWN_PID, GIB), (99, GIB)])
    assert [row["flags"] for row in rows] == [["gpu_shared"], ["gpu_shared"]]


def test_sweep_goes_on_when_the_library_hangs(tmp_path: Path) -> None:
    """F26: what was told is kept, the row says why the rest is missing."""
    never = threading.Event()

    def power_mw(s: float) -> int | None:
        return 300_000 if s < 10 else None if never.wait(PATIENCE_S) else 0

    _, (row,) = sweep_on_gpu(tmp_path / "results", call_limit_s=HANG_S, power_mw=power_mw)
    never.set()
    assert row["outcome"] == "ok"
    assert row["flags"] == ["nvml_missing"]
    assert "does not answer" in row["telemetry_problem"]


def test_sweep_on_a_cpu_has_no_telemetry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked, nothing is flagged, the columns are null."""

    def asked(self: GpuWatch, *arguments: Any) -> None:
        raise AssertionError("NVML was asked")

    monkeypatch.setattr(GpuWatch, "__init__", asked)
    trivial.run(trivial.sweep_of({"seed": [0]}), tmp_path / "results")
    (row,) = trivial.facts_of(tmp_path / "results", "flags", "telemetry_samples", "telemetry_problem").to_dict(
        "records"
    )
    assert list(row["flags"]) == []
    assert pd.isna(row["telemetry_samples"])
    assert pd.isna(row["telemetry_problem"])


class CoolingTelemetry(Telemetry):
    """Let something happen while a GPU is waited for."""

    def __init__(self, during: Callable[[Callable[[], None]], None]) -> None:
        super().__init__()
        self._during = during

    @contextmanager
    def watching(
        self,
        device: str,
        world_size: int,
        on_wait: Callable[[], None] = lambda: None,
        is_hurried: Callable[[], bool] = lambda: False,
    ) -> Iterator[LaunchWatch]:
        """Wait, then give what a CPU gets."""
        self._during(on_wait)
        yield LaunchWatch(self, is_on_gpus=False)


def test_launch_is_not_started_after_a_signal_in_the_wait_for_a_hot_gpu(tmp_path: Path) -> None:
    """Ctrl-C while it cools: the sweep ends, and the launch is owed as before."""
    launcher = trivial.InstantLauncher()
    telemetry = CoolingTelemetry(lambda on_wait: signal.raise_signal(signal.SIGINT))
    with pytest.raises(SweepInterrupted):
        trivial.run(trivial.sweep_of({"seed": [0]}), tmp_path / "results", launcher=launcher, telemetry=telemetry)
    assert launcher.launched == []
    summary = trivial.run(trivial.sweep_of({"seed": [0]}), tmp_path / "results", launcher=launcher)
    assert (summary.launched, len(launcher.launched)) == (1, 1)


def test_wait_for_a_hot_gpu_follows_a_suspension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-Z while it cools stops the sweep then, and not when ranks run."""
    suspended: list[str] = []

    def suspend(self: Interrupts) -> None:
        self.suspend_asked = False
        suspended.append("in the wait")

    def during(on_wait: Callable[[], None]) -> None:
        signal.raise_signal(signal.SIGTSTP)
        on_wait()
        assert suspended == ["in the wait"]

    monkeypatch.setattr(Interrupts, "suspend", suspend)
    trivial.run(trivial.sweep_of({"seed": [0]}), tmp_path / "results", telemetry=CoolingTelemetry(during))
    assert suspended == ["in the wait"]


def test_launch_starts_when_the_wait_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`started_utc` and the clocks that must not be set meanwhile are read after it."""
    reads: list[str] = []

    def clocks() -> float:
        reads.append("clocks")
        return 0.0

    monkeypatch.setattr(recorded_launches, "_clocks", clocks)
    telemetry = CoolingTelemetry(lambda on_wait: reads.append("wait"))
    trivial.run(trivial.sweep_of({"seed": [0]}), tmp_path / "results", telemetry=telemetry)
    assert reads == ["wait", "clocks", "clocks"]
