"""Run the missing launches of a sweep, one after another, each a row however it ends. No torch here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.drive.conditions import memory_conditions
from bench.drive.folder import check_header, keep_inputs, make_folder, make_header, require_no_strangers
from bench.drive.lock import hold
from bench.drive.progress import Progress
from bench.drive.proofs import Proofs
from bench.drive.pruning import Lessons
from bench.drive.recorded_launches import RecordedLaunches
from bench.drive.recording import Record
from bench.drive.remaining import Owed, Remaining
from bench.drive.repeats import Repeats
from bench.drive.schedule import Place, next_launch, places
from bench.drive.search_lines import search_lines
from bench.drive.tables import write_tables
from bench.drive.telemetry import Telemetry
from bench.drive.work import rank_launcher
from bench.errors import LockedError, StorageError
from bench.launch.interrupts import Interrupts
from bench.launch.launcher import Launcher
from bench.record.journal import Journal
from bench.record.paths import SweepPaths
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.hf.files import needs_hf
from bench.sweep.trial import Search, Skipped, Sweep, Trial


class SweepInterrupted(BaseException):
    """A signal, or the time limit, ended the sweep early; everything finished is kept."""

    def __init__(self, number: int | None, left: int) -> None:
        self.number = number
        """The signal; None for the time limit."""
        self.left = left
        """Launches that are still owed, about."""
        super().__init__()


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
    found: tuple[str, ...] = ()
    """What each search found, in words."""

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
    telemetry: Telemetry | None = None,
) -> SweepSummary:
    """Run the missing launches of a sweep, of the trials that `only` selects, and rebuild the tables of its folder.

    Args:
        sweep: what is asked.
        folder: where results go.
        facts: what the machine decides about the sweep.
        progress: watches.
        only: selects trials; a search runs if it selects the smallest of its candidates.
        retry_failed: run failed, timed-out, hung and killed launches again.
        launcher: starts the ranks.
        time_limit_s: starts no launch unless the longest so far would fit in what is left of so many seconds.
        prove: prove the accumulation of each configuration before its first launch, and add the verdict to its rows.
        telemetry: watches the GPUs of launches.

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
    require_no_strangers(folder)
    make_folder(folder)
    telemetry = telemetry or Telemetry(facts.gpu_uuids)
    with closing(telemetry), hold(paths.lock) as lock, Journal(paths.journal) as journal:
        # It prepares corpora, which may take minutes: before signals are merely noted, so that one ends that at once.
        header = make_header(sweep, [point.config for point in _all_configured(points)], facts)
        with Interrupts() as interrupts:
            if journal.torn_bytes:
                progress.note(f"cut an unfinished last line off {paths.journal} ({journal.torn_bytes} bytes)")
            record = Record(paths, sweep.name, journal, lock)
            launcher = launcher or rank_launcher(needs_hf=needs_hf(sweep.spec))
            proofs = Proofs(paths, launcher, interrupts) if prove else None
            launches = RecordedLaunches(
                sweep, paths, record, launcher, progress, interrupts, deadline_s, proofs, telemetry
            )
            run = _Run(sweep, points, paths, facts, record, launcher, launches, progress, interrupts)
            run.prepare(header)
            return run.finish_with_tables(only, retry_failed)


@dataclass
class _Run:
    """Hold one run of a sweep."""

    sweep: Sweep
    points: Sequence[Trial | Skipped | Search]
    paths: SweepPaths
    facts: MachineFacts
    record: Record
    launcher: Launcher
    launches: RecordedLaunches
    progress: Progress
    interrupts: Interrupts

    def __post_init__(self) -> None:
        self._trials = {trial.trial_id: trial for point in self.points for trial in _trials_of(point)}
        self._learn_under(None)
        self._launched = 0
        self._repeats = Repeats()
        self._remaining = Remaining(self._owed, (), False)

    def prepare(self, header: Mapping[str, Any]) -> None:
        """Check the folder's conditions, repair what was cut off, and say what is planned."""
        history = self.record.history
        if history.header is None:
            self.record.append(header)
        else:
            check_header(history.header, header, self.paths.folder)
        keep_inputs(self.paths, self.sweep, self.facts)
        configs = {trial_id: trial.config for trial_id, trial in self._trials.items()}
        for done in [*self.record.settle_abandoned(configs), *self.record.drop_damaged()]:
            self.progress.note(done)
        machine = memory_conditions(self.facts)
        if history.machine != machine:
            self.record.append({"kind": "machine", "conditions": machine})
        new = [trial_id for trial_id in self._trials if trial_id not in history.planned]
        if new:
            self.record.append({"kind": "planned", "trial_ids": new})
        self._learn_under(machine)

    def finish_with_tables(self, only: Callable[[Trial], bool], retry_failed: bool) -> SweepSummary:
        """Run the missing launches, then write the tables, even when the run is cut short."""
        points = [point for point in self.points if not isinstance(point, Skipped)]
        # The order of launches is that of the whole sweep, so that a part runs in the same order.
        measure = self.sweep.spec.measure
        every = places(points, measure.rounds, measure.order)
        order = [place for place in every if only(_trials_of(place.point)[0])]
        self._remaining = Remaining(self._owed, order, retry_failed)
        done, skipped = self._remaining.done_places, len(self.points) - len(points)
        self._expect()
        self.progress.sweep_begin(self._remaining.launches, done, skipped)
        try:
            if self._remaining.launches:
                self.launcher.warm_up()
            for at, place in enumerate(order):
                self._run_place(at, place, retry_failed)
        except (StorageError, LockedError):
            raise  # the folder must not be written any more
        except BaseException:
            if not self.interrupts.hurry:
                with suppress(Exception):  # the user must see what ended the run
                    self._write_tables()
            raise
        pruned = self._write_tables()
        outcomes = self.record.history.count_outcomes()
        found = tuple(search_lines(self.points, self.record.history))
        return SweepSummary(self.paths.folder, self._launched, done, skipped, outcomes, pruned, found)

    def _run_place(self, at: int, place: Place, retry_failed: bool) -> None:
        """Run everything that a place owes, one launch after the other."""
        while (launch := next_launch(place, self.record.history, retry_failed)) is not None:
            reason = self._owed.reason_to_leave_out(launch.trial) if isinstance(place.point, Trial) else None
            if reason is not None:
                self._remaining.note_left_out(at)
                self._expect()
                self.progress.place_left_out(launch.trial.name(), reason)
                return
            left = max(1, self._remaining.launches)
            if self.interrupts.number is not None:
                raise SweepInterrupted(self.interrupts.number, left)
            if self.interrupts.suspend_asked:
                self.interrupts.suspend()
            if not self.launches.time_for_another():
                raise SweepInterrupted(None, left)
            row = self.launches.run(launch)
            self._launched += 1
            recorded = self.record.history.last((launch.trial.trial_id, launch.round))
            assert recorded is not None, "it was just recorded"
            self._lessons.learn(recorded, recorded["machine"])
            self._remaining.note_launch(at, taught=row["outcome"] == "oom")
            self._expect()
            self.progress.launch_end(launch, row)
            hint = self._repeats.note(row)
            if hint is not None:
                self.progress.note(hint)
            retry_failed = False  # what fails again is left to the next run: a sweep never loops
            if row["outcome"] == "interrupted":
                raise SweepInterrupted(self.interrupts.number, left)

    def _expect(self) -> None:
        self.progress.expect(self._remaining.launches, self._remaining.is_estimate)

    def _learn_under(self, machine: Mapping[str, Any] | None) -> None:
        """Learn from what has happened, as far as it holds for this memory."""
        self._lessons = Lessons(self._trials.values(), machine)
        self._owed = Owed(self.record.history, self._lessons, self.sweep.spec.measure.rounds)
        for launch in self.record.history.launches():
            self._lessons.learn(launch, launch["machine"])

    def _write_tables(self) -> int:
        """Write the tables; return how many trials are pruned."""
        pruned = self._owed.pruned(self.points)
        write_tables(self.paths.folder, self.sweep.name, self.points, self.record.history, pruned)
        return len(pruned)


def _all_configured(points: Sequence[Trial | Skipped | Search]) -> Iterator[Trial | Skipped]:
    for point in points:
        yield point.candidates[0] if isinstance(point, Search) else point


def _trials_of(point: Trial | Skipped | Search) -> tuple[Trial, ...]:
    if isinstance(point, Search):
        return point.candidates
    return (point,) if isinstance(point, Trial) else ()
