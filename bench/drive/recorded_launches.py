"""Turn one planned launch into a durable row: its files, its ranks, how it ended."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.drive.folder import make_folder
from bench.drive.progress import Progress
from bench.drive.proofs import Proofs
from bench.drive.recording import Record, row_of
from bench.drive.schedule import PlannedLaunch
from bench.drive.telemetry import Telemetry
from bench.drive.work import TRIAL
from bench.errors import StorageError
from bench.launch.gpu_release import wait_for_release
from bench.launch.interrupts import Interrupts
from bench.launch.launcher import LaunchEnd, Launcher
from bench.launch.outcome import RankEnd
from bench.launch.trial_file import TrialFile
from bench.launch.watchdog import LaunchLimits, Stopped
from bench.record.atomic import words_of
from bench.record.paths import SweepPaths
from bench.record.store import part_name
from bench.sweep.fields import MeasureSpec, TrialConfig
from bench.sweep.models import has_own_code
from bench.sweep.trial import Sweep

COMPILE_S = 900.0
"""Limit of start and of silence where the model is compiled and the file names none [s]."""
_CLOCK_STEP_S = 1.0
"""How far wall clock and monotonic clock may move apart during a launch [s]."""


@dataclass
class RecordedLaunches:
    """Run launches of one sweep one after the other, each into a row, within the time there is."""

    sweep: Sweep
    paths: SweepPaths
    record: Record
    launcher: Launcher
    progress: Progress
    interrupts: Interrupts
    deadline_s: float | None
    """When no launch may run any more, on the monotonic clock [s]; None without a time limit."""
    proofs: Proofs | None
    """Proves the accumulation of each configuration; None when nobody asked."""
    telemetry: Telemetry
    longest_s: float = 0.0
    """Duration of the longest launch so far [s]."""

    def run(self, launch: PlannedLaunch) -> dict[str, Any]:
        """Run one launch and store its row durably: nothing is reported before it is safe on disk.

        Raises:
            StorageError: The folder cannot be written.
            LockedError: Another sweep took the folder over.
            EnvironmentFault: No process can be started.
        """
        launch = self._with_unused_files(launch)
        config, measure = launch.trial.config, self.sweep.spec.measure
        proof: dict[str, Any] = {}
        wrong: str | None = None
        if self.proofs is not None:
            proof = self.proofs.for_trial(launch.trial, self.record.renew_lock, self.seconds_left())
            wrong = self.proofs.why_arithmetic_is_wrong(launch.trial)
        files = self.paths.launch(launch.trial.trial_id, launch.round, launch.attempt)
        if files.folder.exists():  # left by a launch that the journal does not know: nothing of it may be read
            shutil.rmtree(files.folder)
        make_folder(files.folder)
        ranks = range(config.world_size)
        with _refusals_named(files.folder):
            TrialFile(
                sweep=self.sweep.name,
                trial_id=launch.trial.trial_id,
                round=launch.round,
                attempt=launch.attempt,
                order=launch.order,
                config=config,
                measure=measure,
                world_size=config.world_size,
                gpus=tuple(ranks) if config.device == "cuda" else (),
                working_directory=os.fspath(Path.cwd()) if has_own_code(config) else "",
            ).write(files.trial_file)
        self.record.begin(launch, self.launcher.token)
        self.progress.launch_begin(launch)
        with self.telemetry.watching(config.device, len(ranks), self._wait, self._is_hurried) as watch:
            started, clocks = datetime.now(UTC), _clocks()
            limits = limits_of(measure, config, self.seconds_left())
            if self.interrupts.number is None:
                end = self.launcher.run(TRIAL, files, ranks, limits, self.record.renew_lock, self.interrupts)
            else:
                end = _not_begun(ranks)
        at = started.isoformat(timespec="seconds")
        row, updates = row_of(self.sweep.name, launch, end, at, watch.health(end), wrong)
        row |= proof
        if abs(_clocks() - clocks) > _CLOCK_STEP_S:
            row["flags"] = sorted({*row["flags"], "clock_step"})
        self.record.finish(row, updates)
        if config.device == "cuda":
            wait_for_release(end.pids, is_interrupted=lambda: self.interrupts.number is not None)
        self.longest_s = max(self.longest_s, end.seconds)
        return row

    def time_for_another(self) -> bool:
        """Tell whether the longest launch so far would fit in the time left; true while none ran."""
        left_s = self.seconds_left()
        return left_s is None or left_s > self.longest_s

    def seconds_left(self) -> float | None:
        """Say how much of the time limit is left [s]; None without one."""
        return None if self.deadline_s is None else self.deadline_s - time.monotonic()

    def _wait(self) -> None:
        """Keep the folder ours while a GPU cools, and follow Ctrl-Z at once: no rank runs."""
        self.record.renew_lock()
        if self.interrupts.suspend_asked:
            self.interrupts.suspend()

    def _is_hurried(self) -> bool:
        """Tell whether there is no time to wait for a cooler GPU."""
        left_s = self.seconds_left()
        return self.interrupts.number is not None or (left_s is not None and left_s <= 2 * self.longest_s)

    def _with_unused_files(self, launch: PlannedLaunch) -> PlannedLaunch:
        """Number a launch past every part in the folder, also those that the journal knows nothing of any more."""
        while (self.paths.folder / part_name(launch.trial.trial_id, launch.round, launch.attempt)).exists():
            launch = replace(launch, attempt=launch.attempt + 1)
        return launch


def limits_of(measure: MeasureSpec, config: TrialConfig, sweep_s: float | None) -> LaunchLimits:
    """Bound a launch: a model that is compiled may take long to start, and to go on where it is compiled again.

    A limit that the file names stands.
    """
    wanted = {
        name: max(COMPILE_S, getattr(measure, name))
        if config.compile and name not in measure.model_fields_set
        else getattr(measure, name)
        for name in ("start_timeout_s", "stall_timeout_s")
    }
    return LaunchLimits(wanted["start_timeout_s"], measure.timeout_s, wanted["stall_timeout_s"], sweep_s)


def _not_begun(ranks: range) -> LaunchEnd:
    """End a launch of which a signal came before anything was started."""
    ends = tuple(RankEnd(rank, None, None, None, ended_by_driver=True) for rank in ranks)
    return LaunchEnd(ends, Stopped("interrupted", "the sweep was interrupted"), 0.0)


def _clocks() -> float:
    """Give the distance between wall clock and monotonic clock [s]; it moves only when one of them is set."""
    return time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_BOOTTIME)


@contextmanager
def _refusals_named(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {words_of(error, folder)}.") from error
