"""Real launches from one fork server per test session, with faults on purpose."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from ruamel.yaml import YAML

from bench.run.driver import SweepSummary, run_sweep
from bench.run.launch import Launcher
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
    "measure": {"warmup_updates": 1, "updates": 2, "quality_updates": 4, "timeout_s": 60.0},
}


class Silent:
    """Watch a sweep and remember the rows; asserts nothing."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []
        self.on_wait: Callable[[], None] = lambda: None
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

    def waiting(self) -> None:
        self.on_wait()

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
        self, sweep: Sweep, *faults: str, on_wait: Callable[[], None] = lambda: None, **options: Any
    ) -> SweepSummary:
        """Run what is missing, with these faults."""
        self.faults_file.write_text("\n".join(faults))
        self.progress = Silent()
        self.progress.on_wait = on_wait
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
    launcher = Launcher()
    launcher.warm_up()
    return launcher


@pytest.fixture
def lab(tmp_path: Path, faults_file: Path, launcher: Launcher) -> Iterator[Lab]:
    """Give a folder, a server and a clean sheet of faults."""
    yield Lab(tmp_path, faults_file, launcher)
    faults_file.write_text("")


@pytest.fixture(scope="session", autouse=True)
def signals() -> None:
    """Take signals as a terminal's programs do; in the background, or under nohup, some are ignored, and stay so."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


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
