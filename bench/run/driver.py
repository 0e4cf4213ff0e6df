"""Run what is missing of a sweep: one fresh launch after another, each a row, whatever becomes of it. No torch here."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from bench.errors import BenchError, StorageError
from bench.record.columns import SCHEMA_VERSION
from bench.record.derive import derive
from bench.record.journal import Journal
from bench.record.reduce import ReduceError, reduce_ranks
from bench.record.store import PartInfo, rebuild_tables, write_part
from bench.run.config_columns import config_columns, data_source
from bench.run.environment import describe_machine, software_versions
from bench.run.launch import Launcher, LaunchLimits
from bench.run.lock import hold
from bench.run.outcome import decide
from bench.run.paths import SweepPaths
from bench.run.schedule import PlannedLaunch, owed_launches
from bench.run.trial_file import TrialFile
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.trial import Skipped, Sweep, Trial
from bench.workload.corpus import load_corpus

MEASUREMENT_VERSION = 1
"""Version of how numbers are made; raised whenever a change moves them. History in CHANGELOG.md, under Measurements."""


class SweepInterrupted(BaseException):
    """A signal asked the sweep to end; everything finished is kept."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


class Progress(Protocol):
    """Watch a sweep from outside."""

    def sweep_begin(self, launches: int, done: int, skipped: int) -> None:
        """Note how many launches are owed, already done and skipped."""

    def launch_begin(self, launch: PlannedLaunch) -> None:
        """Note that a launch starts."""

    def waiting(self) -> None:
        """Note that time passes; called a few times a second."""

    def launch_end(self, launch: PlannedLaunch, row: Mapping[str, Any]) -> None:
        """Note how it ended."""


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
) -> SweepSummary:
    """Run what is missing of a sweep, of the trials that `only` selects, into a folder and rebuild its tables.

    Raises:
        SweepFileError: two points of the sweep are the same trial.
        BenchError: the folder holds another sweep, or was measured under other conditions; names the differing keys.
        LockedError: another sweep is writing the folder.
        StorageError: the folder cannot be written.
        SweepInterrupted: a signal came; the tables hold what was finished.
    """
    points = expand(sweep, facts)
    paths = SweepPaths(folder)
    _make_folder(folder)
    with hold(paths.lock), Journal(paths.journal) as journal:
        _agree_with_header(journal, _header(sweep, points), folder)
        _keep_inputs(paths, sweep, facts)
        skipped = [point for point in points if isinstance(point, Skipped)]
        trials = [point for point in points if isinstance(point, Trial)]
        selected = {trial.trial_id for trial in trials if only(trial)}
        rounds = sweep.spec.measure.rounds
        # The order of launches is that of the whole sweep, so that a part runs in the same order.
        owed = owed_launches(trials, rounds, journal.records(), retry_failed)
        owed = [launch for launch in owed if launch.trial.trial_id in selected]
        done = len(selected) * rounds - len(owed)
        progress.sweep_begin(len(owed), done, len(skipped))
        try:
            with _signals_raise():
                if owed:
                    launcher = launcher or Launcher()
                    launcher.warm_up()
                for launch in owed:
                    progress.launch_begin(launch)
                    row = _run_launch(sweep, paths, launch, journal, launcher, progress)
                    progress.launch_end(launch, row)
        finally:
            _rebuild(paths, journal, sweep, points)
        return SweepSummary(folder, len(owed), done, len(skipped), _count_outcomes(journal))


def _run_launch(
    sweep: Sweep,
    paths: SweepPaths,
    launch: PlannedLaunch,
    journal: Journal,
    launcher: Launcher | None,
    progress: Progress,
) -> dict[str, Any]:
    """Run one launch, store its part, then say so in the journal: nothing is claimed before it is safe."""
    assert launcher is not None, "a launcher exists when launches are owed"
    config, measure = launch.trial.config, sweep.spec.measure
    files = paths.launch(launch.trial.trial_id, launch.round, launch.attempt)
    _make_folder(files.folder)
    ranks = range(config.world_size)
    TrialFile(
        sweep=sweep.name,
        trial_id=launch.trial.trial_id,
        round=launch.round,
        attempt=launch.attempt,
        order=launch.order,
        config=config,
        measure=measure,
        world_size=config.world_size,
        gpus=tuple(ranks) if config.device == "cuda" else (),
    ).write(files.trial_file)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    end = launcher.run(files, ranks, LaunchLimits(measure.start_timeout_s, measure.timeout_s), progress.waiting)
    outcome = decide(end.ranks, "interrupted" if end.interrupt else end.stopped)
    documents = [rank.document for rank in end.ranks if rank.document is not None]
    columns: dict[str, Any] = {}
    updates: list[dict[str, Any]] = []
    contradiction: str | None = None
    try:
        columns, updates = reduce_ranks(documents, config.world_size)
    except ReduceError as error:
        contradiction = str(error)  # the ranks contradict each other: no figure of this launch can be trusted
    row: dict[str, Any] = {
        **columns,
        **config_columns(config),
        **{key: value for key, value in asdict(outcome).items() if key != "micro_batch"},
        "measurement_version": MEASUREMENT_VERSION,
        "sweep": sweep.name,
        "trial_id": launch.trial.trial_id,
        "round": launch.round,
        "attempt": launch.attempt,
        "order": launch.order,
        "flags": columns.get("flags") or [],
        "started_utc": started,
        "launch_s": end.seconds,
    }
    if outcome.micro_batch is not None:
        row["reason"] = f"{row['reason']} (micro-batch {outcome.micro_batch})"
    if contradiction is not None and row["outcome"] == "ok":
        row |= {"outcome": "invalid", "reason": contradiction, "phase": "finish"}
    row = derive(row, updates)
    part = write_part(paths.folder, row, updates)
    journal.append(
        {
            "kind": "launch",
            "trial_id": launch.trial.trial_id,
            "round": launch.round,
            "attempt": launch.attempt,
            "outcome": row["outcome"],
            **part.journal_fields(),
        }
    )
    if end.interrupt is not None:
        raise end.interrupt
    return row


def _header(sweep: Sweep, points: Sequence[Trial | Skipped]) -> dict[str, Any]:
    """State the conditions under which every row of a folder must be measured."""
    sources = {json.dumps(point.config.data.model_dump(mode="json"), sort_keys=True): point.config for point in points}
    return {
        "kind": "header",
        "sweep": sweep.name,
        "schema_version": SCHEMA_VERSION,
        "measurement_version": MEASUREMENT_VERSION,
        "measure": sweep.spec.measure.model_dump(mode="json", exclude={"rounds"}),
        "torch": software_versions()["torch"],
        "corpora": {data_source(config.data): load_corpus(config.data).content_hash for config in sources.values()},
    }


def _agree_with_header(journal: Journal, header: dict[str, Any], folder: Path) -> None:
    """Write the header of a new journal, or refuse to mix rows measured under other conditions.

    New axis values extend a sweep, and so may new corpora; known ones must not have changed.
    """
    records = journal.records()
    if not records:
        journal.append(header)
        return
    old = records[0]
    differing = {key: (old.get(key), header[key]) for key in header if key != "corpora" and old.get(key) != header[key]}
    for name, content_hash in header["corpora"].items():
        if old["corpora"].get(name, content_hash) != content_hash:
            differing[f"content of {name}"] = (old["corpora"][name], content_hash)
    if differing:
        listed = "; ".join(f"{key}: {before} there, {now} now" for key, (before, now) in sorted(differing.items()))
        raise BenchError(
            f"{folder} holds rows measured under other conditions - {listed} - rows must compare, so use another "
            "folder (--out), or move this one aside."
        )


def _keep_inputs(paths: SweepPaths, sweep: Sweep, facts: MachineFacts) -> None:
    """Keep the sweep file as run, and what the machine is."""
    try:
        paths.sweep_file.write_text(sweep.text)
        paths.environment.write_text(json.dumps(describe_machine(facts), indent=1))
    except OSError as error:
        raise StorageError(f"{paths.folder} cannot be written: {error.strerror}.") from error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} cannot be made: {error.strerror}. Choose another folder with --out.") from error


def _rebuild(paths: SweepPaths, journal: Journal, sweep: Sweep, points: Sequence[Trial | Skipped]) -> None:
    """Write the two tables anew from the parts that the journal names."""
    parts = [PartInfo.from_journal(record) for record in journal.records() if record.get("kind") == "launch"]
    skipped = [
        {
            **config_columns(point.config),
            "measurement_version": MEASUREMENT_VERSION,
            "sweep": sweep.name,
            "trial_id": point.trial_id,
            "outcome": "skipped",
            "reason": point.reason,
            "flags": [],
        }
        for point in points
        if isinstance(point, Skipped)
    ]
    rebuild_tables(paths.folder, parts, skipped, [point.trial_id for point in points])


def _count_outcomes(journal: Journal) -> dict[str, int]:
    """Count the last outcome of every launch in the folder."""
    last = {
        (record["trial_id"], record["round"]): record["outcome"]
        for record in journal.records()
        if record.get("kind") == "launch"
    }
    counts: dict[str, int] = {}
    for outcome in last.values():
        counts[outcome] = counts.get(outcome, 0) + 1
    return counts


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Turn Ctrl-C, SIGTERM and SIGHUP into an exception, so that the launch under way is ended and recorded."""

    def interrupt(number: int, _frame: Any) -> None:
        raise SweepInterrupted(number)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
