"""Run what is missing of a sweep: one fresh launch after another, each a row, whatever becomes of it. No torch here."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from bench.errors import LockedError, StorageError
from bench.record.journal import Journal
from bench.record.store import part_name
from bench.run.conditions import memory_conditions
from bench.run.folder import check_header, keep_inputs, make_folder, make_header
from bench.run.gpu_release import wait_for_release
from bench.run.interrupts import Interrupts
from bench.run.launch import Launcher
from bench.run.lock import hold
from bench.run.paths import SweepPaths
from bench.run.proofs import Proofs
from bench.run.pruning import Lessons
from bench.run.recording import Record, row_of
from bench.run.schedule import Place, PlannedLaunch, next_launch, places
from bench.run.tables import write_tables
from bench.run.trial_file import TrialFile
from bench.run.watchdog import LaunchLimits
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.trial import Search, Skipped, Sweep, Trial

_PROBES_OF_A_SEARCH = 5
"""Launches that a search is expected to take: three for a line, the limit, and the size after it."""
_CLOCK_STEP_S = 1.0
"""How far wall clock and monotonic clock may move apart during a launch [s]."""


class SweepInterrupted(BaseException):
    """A signal, or the time limit, ended the sweep early; everything finished is kept."""

    def __init__(self, number: int | None, left: int) -> None:
        self.number = number
        """The signal; None for the time limit."""
        self.left = left
        """Launches that are still owed, about."""
        super().__init__()


class Progress(Protocol):
    """Watch a sweep from outside."""

    def note(self, text: str) -> None:
        """Tell what was found in the folder and what was done about it."""

    def sweep_begin(self, launches: int, done: int, skipped: int) -> None:
        """Note how many launches are owed, already done and skipped."""

    def launch_begin(self, launch: PlannedLaunch) -> None:
        """Note that a launch starts."""

    def waiting(self) -> None:
        """Note that time passes; called a few times a second."""

    def launch_end(self, launch: PlannedLaunch, row: Mapping[str, Any]) -> None:
        """Note how it ended."""

    def place_left_out(self, label: str, reason: str) -> None:
        """Note that a trial need not run, and why."""


@dataclass(frozen=True)
class SweepSummary:
    """State what a sweep's folder holds after a run."""

    folder: Path
    launched: int
    """Launches of this run."""
    already_done: int
    skipped: int
    outcomes: Mapping[str, int]
    """Outcome to launches, over the whole folder."""
    pruned: int = 0
    """Trials that need not run."""

    @property
    def failed(self) -> int:
        """Count launches that ended in a way that is not a result."""
        return sum(self.outcomes.get(name, 0) for name in ("failed", "timeout", "hang", "killed", "invalid"))


def run_sweep(
    sweep: Sweep,
    folder: Path,
    facts: MachineFacts,
    progress: Progress,
    *,
    only: Callable[[Trial], bool] = lambda trial: True,
    retry_failed: bool = False,
    launcher: Launcher | None = None,
    time_limit_s: float | None = None,
    prove: bool = False,
) -> SweepSummary:
    """Run what is missing of a sweep, of the trials that `only` selects, into a folder and rebuild its tables.

    Args:
        sweep: what is asked.
        folder: where results go.
        facts: what the machine decides about the sweep.
        progress: watches.
        only: selects trials; a search runs if it selects the smallest of its candidates.
        retry_failed: run failed, timed-out, hung and killed launches again.
        launcher: starts the ranks.
        time_limit_s: no launch starts that may not end within so many seconds from now.
        prove: prove the accumulation of each configuration before its first launch, for the columns of its rows.

    Raises:
        SweepFileError: two points of the sweep are the same trial.
        BenchError: the folder holds another sweep, or was measured under other conditions; names the differing keys.
        LockedError: another sweep is writing the folder.
        StorageError: the folder cannot be written.
        EnvironmentFault: no process can be started.
        SweepInterrupted: a signal came, or the time was up; the tables hold what was finished.
    """
    deadline_s = None if time_limit_s is None else time.monotonic() + time_limit_s
    points = expand(sweep, facts)
    paths = SweepPaths(folder)
    make_folder(folder)
    with Interrupts() as interrupts, hold(paths.lock) as lock, Journal(paths.journal) as journal:
        if journal.torn_bytes:
            progress.note(f"cut an unfinished last line of {paths.journal} ({journal.torn_bytes} bytes)")
        record = Record(paths, sweep.name, journal, lock)
        launcher = launcher or Launcher()
        run = _Run(sweep, points, paths, facts, record, launcher, progress, interrupts, deadline_s)
        run.proofs = Proofs(paths, launcher, interrupts) if prove else None
        run.prepare()
        return run.finish_with_tables(only, retry_failed)


class _Run:
    """Hold one run of a sweep."""

    def __init__(
        self,
        sweep: Sweep,
        points: Sequence[Trial | Skipped | Search],
        paths: SweepPaths,
        facts: MachineFacts,
        record: Record,
        launcher: Launcher,
        progress: Progress,
        interrupts: Interrupts,
        deadline_s: float | None,
    ) -> None:
        self._sweep = sweep
        self._points = points
        self._paths = paths
        self._facts = facts
        self._record = record
        self._launcher = launcher
        self._progress = progress
        self._interrupts = interrupts
        self._deadline_s = deadline_s
        self._longest_s = 0.0
        self._trials = {trial.trial_id: trial for point in points for trial in _trials_of(point)}
        self._lessons = Lessons(self._trials.values(), None)
        self._launched = 0
        self.proofs: Proofs | None = None
        """Proves the accumulation of each configuration; None when nobody asked."""

    def prepare(self) -> None:
        """Agree with what is in the folder, put right what was cut off, and say what is planned."""
        history = self._record.history
        header = make_header(self._sweep, [point.config for point in self._all_configured()], self._facts)
        if history.header is None:
            self._record.append(header)
        else:
            check_header(history.header, header, self._paths.folder)
        keep_inputs(self._paths, self._sweep, self._facts)
        configs = {trial_id: trial.config for trial_id, trial in self._trials.items()}
        for done in [*self._record.settle_abandoned(configs), *self._record.drop_damaged()]:
            self._progress.note(done)
        machine = memory_conditions(self._facts)
        if history.machine != machine:
            self._record.append({"kind": "machine", "conditions": machine})
        new = [trial_id for trial_id in self._trials if trial_id not in history.planned]
        if new:
            self._record.append({"kind": "planned", "trial_ids": new})
        self._lessons = Lessons(self._trials.values(), machine)
        for launch in history.launches():
            self._lessons.learn(launch, launch["machine"])

    def finish_with_tables(self, only: Callable[[Trial], bool], retry_failed: bool) -> SweepSummary:
        """Run what is owed, then write the tables, also when the run is cut short."""
        points = [point for point in self._points if not isinstance(point, Skipped)]
        # The order of launches is that of the whole sweep, so that a part runs in the same order.
        order = [place for place in places(points, self._sweep.spec.measure.rounds) if only(_trials_of(place.point)[0])]
        owed = sum(self._expected_launches(place, retry_failed) for place in order)
        done = sum(1 for place in order if not self._expected_launches(place, retry_failed))
        skipped = len(self._points) - len(points)
        self._progress.sweep_begin(owed, done, skipped)
        try:
            if owed:
                self._launcher.warm_up()
            for place in order:
                self._run_place(place, retry_failed, owed)
        except (StorageError, LockedError):
            raise  # the folder is not to be written any more
        except BaseException:
            if not self._interrupts.hurry:
                with suppress(Exception):  # what ended the run is what must be said
                    self._write_tables()
            raise
        pruned = self._write_tables()
        outcomes = self._record.history.count_outcomes()
        return SweepSummary(self._paths.folder, self._launched, done, skipped, outcomes, pruned)

    def _run_place(self, place: Place, retry_failed: bool, owed: int) -> None:
        """Run everything that a place owes, one launch after the other."""
        while (launch := next_launch(place, self._record.history, retry_failed)) is not None:
            if (
                isinstance(place.point, Trial)
                and self._record.history.last((launch.trial.trial_id, place.round)) is None
            ):
                reason = self._lessons.reason_to_prune(launch.trial)
                if reason is not None and not self._was_launched(launch.trial):
                    self._progress.place_left_out(launch.trial.label(), reason)
                    return
            left = max(1, owed - self._launched)
            if self._interrupts.number is not None:
                raise SweepInterrupted(self._interrupts.number, left)
            if self._interrupts.suspend_asked:
                self._interrupts.suspend()
            if not self._time_for(launch):
                raise SweepInterrupted(None, left)
            row = self._run_launch(self._with_unused_files(launch))
            retry_failed = False  # what fails again is left to the next run: a sweep never loops
            if row["outcome"] == "interrupted":
                raise SweepInterrupted(self._interrupts.number, left)

    def _with_unused_files(self, launch: PlannedLaunch) -> PlannedLaunch:
        """Number a launch past every part in the folder, also those that the journal knows nothing of any more."""
        while (self._paths.folder / part_name(launch.trial.trial_id, launch.round, launch.attempt)).exists():
            launch = replace(launch, attempt=launch.attempt + 1)
        return launch

    def _run_launch(self, launch: PlannedLaunch) -> dict[str, Any]:
        """Run one launch and make its row last: nothing is claimed before it is safe."""
        config, measure = launch.trial.config, self._sweep.spec.measure
        proof: dict[str, Any] = {}
        if self.proofs is not None:
            proof = self.proofs.for_trial(launch.trial, self._progress.waiting, self._seconds_left())
        files = self._paths.launch(launch.trial.trial_id, launch.round, launch.attempt)
        if files.folder.exists():  # left by a launch that the journal does not know: nothing of it may be read
            shutil.rmtree(files.folder)
        make_folder(files.folder)
        ranks = range(config.world_size)
        with _refusals_named(files.folder):
            TrialFile(
                sweep=self._sweep.name,
                trial_id=launch.trial.trial_id,
                round=launch.round,
                attempt=launch.attempt,
                order=launch.order,
                config=config,
                measure=measure,
                world_size=config.world_size,
                gpus=tuple(ranks) if config.device == "cuda" else (),
            ).write(files.trial_file)
        self._record.begin(launch, self._launcher.token)
        self._progress.launch_begin(launch)
        started, clocks = datetime.now(UTC), _clocks()
        limits = LaunchLimits(measure.start_timeout_s, measure.timeout_s, measure.stall_timeout_s, self._seconds_left())
        end = self._launcher.run(files, ranks, limits, self._progress.waiting, self._interrupts)
        row, updates = row_of(self._sweep.name, launch, end, started.isoformat(timespec="seconds"))
        row |= proof
        if abs(_clocks() - clocks) > _CLOCK_STEP_S:
            row["flags"] = sorted({*row["flags"], "clock_step"})
        self._record.finish(row, updates)
        if config.device == "cuda":
            wait_for_release(end.pids)
        recorded = self._record.history.last((launch.trial.trial_id, launch.round))
        assert recorded is not None, "it was just recorded"
        self._lessons.learn(recorded, recorded["machine"])
        self._launched += 1
        self._longest_s = max(self._longest_s, end.seconds)
        self._progress.launch_end(launch, row)
        return row

    def _expected_launches(self, place: Place, retry_failed: bool) -> int:
        """Count the launches a place owes, about: what a search will need is not known before."""
        launch = next_launch(place, self._record.history, retry_failed)
        if launch is None:
            searched = isinstance(place.point, Search) and place.round > 0
            return int(searched and next_launch(Place(place.point, 0, 0), self._record.history) is not None)
        if isinstance(place.point, Search) and place.round == 0:
            return min(_PROBES_OF_A_SEARCH, len(place.point.candidates))
        if self._lessons.reason_to_prune(launch.trial) is not None and not self._was_launched(launch.trial):
            return 0
        return 1

    def _was_launched(self, trial: Trial) -> bool:
        """Tell whether a trial has a row of its own already: then its later rounds run too."""
        rounds = range(self._sweep.spec.measure.rounds)
        return any(self._record.history.last((trial.trial_id, number)) is not None for number in rounds)

    def _time_for(self, launch: PlannedLaunch) -> bool:
        """Tell whether a launch can end in what is left: as long as the longest so far, or all if none ran yet."""
        left_s = self._seconds_left()
        return left_s is None or left_s > self._longest_s

    def _seconds_left(self) -> float | None:
        return None if self._deadline_s is None else self._deadline_s - time.monotonic()

    def _write_tables(self) -> int:
        """Write the tables; return how many trials are pruned."""
        pruned = {}
        for point in self._points:
            if isinstance(point, Trial) and not self._was_launched(point):
                reason = self._lessons.reason_to_prune(point)
                if reason is not None:
                    pruned[point.trial_id] = reason
        write_tables(self._paths.folder, self._sweep.name, self._points, self._record.history, pruned)
        return len(pruned)

    def _all_configured(self) -> Iterator[Trial | Skipped]:
        for point in self._points:
            yield point.candidates[0] if isinstance(point, Search) else point


def _trials_of(point: Trial | Skipped | Search) -> tuple[Trial, ...]:
    if isinstance(point, Search):
        return point.candidates
    return (point,) if isinstance(point, Trial) else ()


def _clocks() -> float:
    """Give the distance between wall clock and monotonic clock [s]; it moves only when one of them is set."""
    return time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_BOOTTIME)


@contextmanager
def _refusals_named(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error.strerror}.") from error
