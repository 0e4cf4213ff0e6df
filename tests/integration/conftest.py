"""Real launches from one fork server per test session, with faults on purpose."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import pytest
from ruamel.yaml import YAML

from bench.drive.driver import SweepSummary, run_sweep
from bench.drive.work import rank_launcher
from bench.launch.heartbeat import Beat, read_beat
from bench.launch.launcher import LaunchEnd, Launcher
from bench.launch.watchdog import LaunchLimits, progress
from bench.record.paths import LaunchPaths
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.file import load_sweep
from bench.sweep.trial import Sweep, Trial
from tests.integration import trivial

CPU = MachineFacts("cpu", 0)

NANO = {
    "format": 1,
    "name": "nano",
    "base": {
        "device": "cpu",
        "model": {"preset": "gpt2-nano"},
        "data": {"synthetic": {"documents": 400, "mean_tokens": 20}, "rows": "ragged"},
        "seq_len": 32,
        "global_batch_size": 4,
        "cpu_threads_per_rank": 1,
    },
    "axes": {"micro_batch_size": [1, 2, 4]},
    "measure": {"warmup_updates": 1, "updates": 2, "quality_updates": 4, **trivial.PATIENT},
}


Beats = Mapping[int, Beat | None]


def stands(phase: str, micro_steps: int | None = None, rank: int = 0) -> Callable[[Beats], bool]:
    """Tell whether a rank is where its fault holds it: in this phase, after so many micro-steps."""

    def is_there(beats: Beats) -> bool:
        beat = beats.get(rank)
        return beat is not None and beat.phase == phase and micro_steps in (None, beat.micro_steps)

    return is_there


def stands_alone(phase: str, micro_steps: int, rank: int) -> Callable[[Beats], bool]:
    """Tell whether a rank is where its fault holds it, and all others got farther, as far as they can without it."""
    is_there = stands(phase, micro_steps, rank)
    return lambda beats: (
        is_there(beats) and min(beats, key=lambda each: progress(beats[each])) == rank and None not in beats.values()
    )


class Brief:
    """Limits of one trial's launches that are short as soon as its ranks stand where their fault holds them.

    Before that, and for all other trials, the sweep's own hold: however slow the machine, what fires is what was meant.
    """

    def __init__(self, trial: Trial, are_there: Callable[[Beats], bool], **limits: float) -> None:
        self._trial_id = trial.trial_id
        self._are_there = are_there
        self._brief = limits

    def launch(self, launcher: Launcher) -> Callable[..., LaunchEnd]:
        """Give the launcher's way to run a launch, under these limits."""
        run = launcher.run

        def run_briefly(work: str, paths: LaunchPaths, ranks: Sequence[int], limits: Any, *more: Any) -> LaunchEnd:
            is_meant = paths.folder.name.startswith(self._trial_id)
            return run(work, paths, ranks, _Until(self, paths, ranks, limits) if is_meant else limits, *more)

        return run_briefly

    def holds(self, paths: LaunchPaths, ranks: Sequence[int]) -> bool:
        """Tell whether all stand there, for as long as the shortest limit."""
        beats = {rank: read_beat(paths.heartbeat(rank)) for rank in ranks}
        latest_s = max((beat.monotonic_s for beat in beats.values() if beat is not None), default=0.0)
        return self._are_there(beats) and time.monotonic() - latest_s > min(self._brief.values())

    def limit(self, name: str) -> float | None:
        """Give a limit by its name; None where the sweep's own holds all the time."""
        return self._brief.get(name)


class _Until:
    """Stand for the limits of one launch."""

    def __init__(self, brief: Brief, paths: LaunchPaths, ranks: Sequence[int], own: LaunchLimits) -> None:
        self._brief = brief
        self._paths = paths
        self._ranks = ranks
        self._own = own
        self._are_there = False

    def __getattr__(self, name: str) -> Any:
        brief = self._brief.limit(name)
        self._are_there = self._are_there or self._brief.holds(self._paths, self._ranks)
        return brief if self._are_there and brief is not None else getattr(self._own, name)


class Silent:
    """Watch a sweep and remember the rows; asserts nothing."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []
        self.owed = -1
        self.notes: list[str] = []
        self.left_out: list[str] = []
        self.expected: list[tuple[int, bool]] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def place_left_out(self, label: str, reason: str) -> None:
        self.left_out.append(label)

    def sweep_begin(self, launches: int, done: int, skipped: int) -> None:
        self.owed = launches

    def expect(self, launches: int, is_estimate: bool) -> None:
        self.expected.append((launches, is_estimate))

    def launch_begin(self, launch: Any) -> None:
        pass

    def launch_end(self, launch: Any, row: Mapping[str, Any]) -> None:
        self.rows.append(row)


@dataclass
class Lab:
    """Write sweep files, plan faults, run sweeps, read tables."""

    folder: Path
    faults_file: Path
    launcher: Launcher
    progress: Silent = field(default_factory=Silent)

    def sweep(self, changes: Callable[[dict[str, Any]], None] = lambda document: None, **base: Any) -> Sweep:
        """Write a nano sweep with some base fields changed, and read it back."""
        import copy

        document = copy.deepcopy(NANO)
        document["base"].update(base)
        changes(document)
        path = self.folder / "sweep.yaml"
        with path.open("w") as file:
            YAML().dump(document, file)
        return load_sweep(path)

    def trials(self, sweep: Sweep) -> list[Trial]:
        """Expand for a CPU."""
        return [point for point in expand(sweep, CPU) if isinstance(point, Trial)]

    def run(
        self,
        sweep: Sweep,
        *faults: str,
        brief: Brief | None = None,
        **options: Any,
    ) -> SweepSummary:
        """Run what is missing, with these faults, and with limits that are meant to fire."""
        self.faults_file.write_text("\n".join(faults))
        self.progress = Silent()
        run = self.launcher.run if brief is None else brief.launch(self.launcher)
        with mock.patch.object(self.launcher, "run", run):
            return run_sweep(sweep, self.folder / "results", CPU, self.progress, launcher=self.launcher, **options)

    def rows(self) -> pd.DataFrame:
        """Read results.parquet as a user would, by trial's micro-batch size."""
        return pd.read_parquet(self.folder / "results" / "results.parquet").set_index("micro_batch_size")


@pytest.fixture(scope="session")
def faults_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Name the file that ranks read their faults from; its name is fixed before the fork server starts."""
    path = tmp_path_factory.mktemp("faults") / "faults"
    path.write_text("")
    os.environ["BENCH_FAULTS"] = str(path)
    return path


@pytest.fixture(scope="session")
def launcher(faults_file: Path) -> Launcher:
    """Start the fork server once."""
    launcher = rank_launcher()
    launcher.warm_up()
    return launcher


@pytest.fixture
def lab(tmp_path: Path, faults_file: Path, launcher: Launcher) -> Iterator[Lab]:
    """Give a folder, a server and a clean sheet of faults."""
    yield Lab(tmp_path, faults_file, launcher)
    faults_file.write_text("")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a sweep of six trivial trials once; tests copy it."""
    folder = tmp_path_factory.mktemp("finished") / "results"
    trivial.run(trivial.SIX_TRIALS, folder)
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """Give a finished sweep to be damaged."""
    return Path(shutil.copytree(finished, tmp_path / "results"))
