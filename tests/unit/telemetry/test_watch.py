"""The real nvidia-ml-py against a stub of the driver's library, watched from a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.nvml_stub.build import build_stub, stub_environment
from tests.patience import HANG_S, PATIENCE_S

GIB = 1024**3
GPU = "GPU-a0000001-0000-1111-2222-00ff00ff0000"
SLICE = "MIG-a0000000-0000-1111-2222-00ff00ff0002"
LIMITS: dict[str, float] = {"call_limit_s": PATIENCE_S, "first_limit_s": PATIENCE_S}
LOOK = """
import json, sys, pynvml
from dataclasses import asdict
from bench.telemetry.watch import GpuWatch
uuids, limits = json.loads(sys.argv[1])
watch = GpuWatch(pynvml, **limits)
watch.choose(uuids)
samples = {uuid: asdict(sample) for uuid, sample in watch.look().items()}
tracks = [asdict(track) for track in watch.tracks()]
print(json.dumps({"samples": samples, "tracks": tracks, "problem": watch.problem, "driver": watch.driver_version}))
"""
POLL = """
import json, sys, time, pynvml
from bench.telemetry.watch import GpuWatch
uuids, limits = json.loads(sys.argv[1])
watch = GpuWatch(pynvml, period_s=0.01, **limits)
watch.choose(uuids)
watch.start()
while not watch.problem and len(watch.tracks()[0].samples) < 6:
    time.sleep(0.01)
(track,) = watch.stop()
print(json.dumps({"times": [sample.monotonic_s for sample in track.samples], "problem": watch.problem,
                  "energies": [sample.energy_mj for sample in track.samples],
                  "full": [sample.used_bytes is not None for sample in track.samples]}))
"""
FIGURES = {
    "nvmlDeviceGetTotalEnergyConsumption": "energy_mj",
    "nvmlDeviceGetPowerUsage": "power_mw",
    "nvmlDeviceGetClockInfo": "sm_clock_mhz",
    "nvmlDeviceGetTotalEccErrors": "ecc_uncorrected",
    "nvmlDeviceGetMemoryInfo_v2": "used_bytes",
    "nvmlDeviceGetComputeRunningProcesses_v3": "processes",
}


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the stub once."""
    return build_stub(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def run(stub: Path) -> Callable[..., dict[str, Any]]:
    """Run a program in a fresh process, whose loader finds the stub first."""

    def run_in_process(
        program: str, uuids: list[str], library: Path = stub, limits: dict[str, float] = LIMITS, **settings: str
    ) -> dict[str, Any]:
        command = [sys.executable, "-c", program, json.dumps([uuids, limits])]
        environment = stub_environment(library, **settings)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    return run_in_process


def test_every_figure_of_a_gpu_is_told(run: Callable[..., dict[str, Any]]) -> None:
    """Found by UUID, with zero bytes in it; memory without the driver's own."""
    begin_s = time.monotonic()
    told = run(LOOK, [GPU])
    end_s = time.monotonic()
    sample = told["samples"][GPU]
    assert (told["problem"], told["driver"]) == (None, "550.54.15")
    # The stub reads the clock that both processes share: whenever it was asked, that was in between.
    assert begin_s - 0.001 <= sample["energy_mj"] / 300_000 <= end_s
    assert begin_s - 0.001 <= sample["power_violation_ns"] / 5e8 <= end_s
    assert begin_s <= sample["monotonic_s"] <= end_s
    assert (sample["power_mw"], sample["sm_clock_mhz"], sample["temperature_c"]) == (300_000, 1155, 61)
    assert (sample["reasons"], sample["thermal_violation_ns"], sample["ecc_uncorrected"]) == (4, 0, 3)
    assert sample["used_bytes"] == 2 * GIB
    assert sample["processes"] == [{"pid": 4242, "used_bytes": 2 * GIB}, {"pid": 4243, "used_bytes": None}]
    (track,) = told["tracks"]
    limits = [track[name] for name in ("power_limit_mw", "sm_clock_default_mhz", "sm_clock_max_mhz")]
    assert limits == [400_000, 1155, 1410]


@pytest.mark.slow
@pytest.mark.parametrize("code", [3, 4, 13, 15, 999])
@pytest.mark.parametrize("function", FIGURES)
def test_figure_that_is_refused_is_null_and_no_other(
    run: Callable[..., dict[str, Any]], function: str, code: int
) -> None:
    """Not supported, no permission, function not found, lost, unknown: each figure is missing on its own."""
    sample = run(LOOK, [GPU], NVML_STUB=f"{function}:{code}")["samples"][GPU]
    assert [name for name, value in sample.items() if value is None] == [FIGURES[function]]


def test_older_names_are_asked_where_the_newer_ones_are_missing(
    run: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """A driver without the newer functions tells temperature and reasons all the same."""
    older = build_stub(tmp_path, "-DWITHOUT_NEW_NAMES", "-DWITHOUT_MEMORY_V2")
    sample = run(LOOK, [GPU], library=older)["samples"][GPU]
    assert (sample["temperature_c"], sample["reasons"], sample["used_bytes"]) == (61, 4, None)


def test_mig_device_tells_its_memory_and_the_clocks_of_its_gpu(run: Callable[..., dict[str, Any]]) -> None:
    """Torch names a slice GPU-...; the meter is the whole GPU's, so energy and power are null, not its neighbours'."""
    named_by_torch = SLICE.replace("MIG-", "GPU-")
    sample = run(LOOK, [named_by_torch], NVML_STUB_MIG="1")["samples"][named_by_torch]
    assert (sample["energy_mj"], sample["power_mw"]) == (None, None)
    assert (sample["sm_clock_mhz"], sample["temperature_c"], sample["used_bytes"]) == (1155, 61, 0)


def test_gpu_that_is_cut_up_tells_nothing_that_its_slices_share(run: Callable[..., dict[str, Any]]) -> None:
    """Where torch gives the whole GPU's UUID for a slice, memory and energy would be of all slices."""
    whole = "GPU-a0000000-0000-1111-2222-00ff00ff0000"
    sample = run(LOOK, [whole], NVML_STUB_MIG="1")["samples"][whole]
    assert [sample[name] for name in ("energy_mj", "power_mw", "used_bytes", "processes")] == [None] * 4
    assert sample["sm_clock_mhz"] == 1155


def test_every_gpu_is_watched_where_none_is_named(run: Callable[..., dict[str, Any]]) -> None:
    """Which of them were the launch's is known afterwards."""
    assert list(run(LOOK, [])["samples"]) == [GPU.replace("a0000001", "a0000000"), GPU]


def test_unknown_gpu_is_said(run: Callable[..., dict[str, Any]]) -> None:
    """Nothing of another GPU is taken for it."""
    told = run(LOOK, ["GPU-0"])
    assert (told["samples"], told["tracks"]) == ({}, [])
    assert "does not know GPU-0" in told["problem"]


@pytest.mark.parametrize(("code", "words"), [(9, "not loaded"), (18, "different versions"), ("hang", "not answer")])
def test_library_that_does_not_start_is_said_in_plain_words(
    run: Callable[..., dict[str, Any]], code: int | str, words: str
) -> None:
    """And nothing is watched."""
    limits = LIMITS | ({"first_limit_s": 0.2} if code == "hang" else {})
    told = run(LOOK, [GPU], limits=limits, NVML_STUB=f"nvmlInitWithFlags:{code}")
    assert words in told["problem"]
    assert told["tracks"] == []


def test_samples_come_while_the_caller_does_something_else(run: Callable[..., dict[str, Any]]) -> None:
    """In order of time; what takes locks of the driver is asked with every other sample."""
    told = run(POLL, [GPU])
    assert told["problem"] is None
    assert told["times"] == sorted(told["times"])
    assert told["full"][:4] == [True, False, True, False]


def test_library_that_is_slow_is_sampled_as_often_as_it_can(run: Callable[..., dict[str, Any]]) -> None:
    """The real gap is known from the samples; no question queues up behind another."""
    told = run(POLL, [GPU], NVML_STUB="nvmlDeviceGetPowerUsage:slow")
    gaps = [later - earlier for earlier, later in zip(told["times"], told["times"][1:], strict=False)]
    assert min(gaps) >= 0.05


@pytest.mark.slow
def test_library_that_hangs_while_it_is_polled_ends_the_polling(run: Callable[..., dict[str, Any]]) -> None:
    """Nobody waits for it, and the reason is kept."""
    told = run(POLL, [GPU], limits=LIMITS | {"call_limit_s": HANG_S}, NVML_STUB="nvmlDeviceGetPowerUsage:hang")
    assert "does not answer" in told["problem"]
    assert told["times"] == []


@pytest.mark.slow
def test_gpu_that_is_brought_up_by_the_first_call_for_it_is_watched(run: Callable[..., dict[str, Any]]) -> None:
    """With persistence mode off that call takes longer than any other may."""
    late = {"NVML_STUB": "nvmlDeviceGetHandleByUUID:late"}
    told = run(LOOK, [GPU], limits=LIMITS | {"call_limit_s": HANG_S}, **late)
    assert (told["problem"], told["samples"][GPU]["power_mw"]) == (None, 300_000)


def test_machine_without_the_library_is_said(run: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    """As on a machine without a driver."""
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    assert "no NVIDIA driver library" in run(LOOK, [GPU], library=tmp_path)["problem"]
