"""How a launch becomes a durable row: its part first, then the journal line that names it."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.drive.folder import MEASUREMENT_VERSION
from bench.drive.history import History
from bench.drive.lock import FolderLock
from bench.drive.schedule import PlannedLaunch
from bench.errors import StorageError
from bench.launch.launcher import LaunchEnd
from bench.launch.outcome import decide
from bench.launch.process_table import identify, kill_with_token
from bench.record.bytes_only import bytes_only, updates_of_bytes_only
from bench.record.config_columns import config_columns
from bench.record.derive import derive, doubts_of_derived
from bench.record.fault_points import reach
from bench.record.fit import compared_bytes
from bench.record.journal import Journal
from bench.record.paths import SweepPaths
from bench.record.reduce import ReduceError, reduce_ranks
from bench.record.store import PartInfo, verify_part, write_part
from bench.standin import has_values, is_standin
from bench.sweep.fields import TrialConfig
from bench.telemetry.summary import NOT_WATCHED, Health
from bench.units import counted


class Record:
    """Write the journal and the parts of one folder, and know what they say; the only writer."""

    def __init__(self, paths: SweepPaths, sweep: str, journal: Journal, lock: FolderLock) -> None:
        self._paths = paths
        self._sweep = sweep
        self._journal = journal
        self._lock = lock
        self.history = History(journal.records())

    def append(self, record: Mapping[str, Any]) -> None:
        """Append to the journal, if the folder is still ours.

        Raises:
            LockedError: Another sweep took the folder over.
            StorageError: The system refused.
        """
        self._lock.check()
        self._journal.append(record)
        self.history.add(record)

    def renew_lock(self) -> None:
        """Keep the folder while nothing is written to it."""
        self._lock.renew()

    def begin(self, launch: PlannedLaunch, token: str) -> None:
        """Say that a launch begins, and by whom: should this process die, the next one knows what was under way."""
        key = {
            "trial_id": launch.trial.trial_id,
            "round": launch.round,
            "attempt": launch.attempt,
            "order": launch.order,
        }
        self.append({"kind": "running", **key, "token": token, **asdict(identify(os.getpid()))})

    def finish(self, row: Mapping[str, Any], updates: Sequence[Mapping[str, Any]]) -> None:
        """Store a launch's row for good: the part, then the line that names it."""
        self._lock.check()
        part = write_part(self._paths.folder, row, updates)
        memory = {
            "peak_bytes": row.get("peak_reserved_bytes") or row.get("peak_allocated_bytes"),
            "capacity_bytes": row.get("device_capacity_bytes"),
            "compared_bytes": compared_bytes(row),
            "fits": row.get("fits"),
        }
        facts = {name: row[name] for name in ("outcome", "signal", "flags") if row.get(name)}
        told = {name: value for name, value in (facts | memory).items() if value is not None}
        key = {name: row[name] for name in ("trial_id", "round", "attempt")}
        self.append({"kind": "launch", **key, **told, **part.journal_fields()})
        reach("launch.recorded")

    def settle_abandoned(self, configs: Mapping[str, TrialConfig]) -> list[str]:
        """Mark launches that a dead driver left as interrupted, and kill what it left running; return what was done."""
        done = []
        for record in self.history.abandoned():
            killed = kill_with_token(record["token"])
            config = configs.get(record["trial_id"])
            row = {
                **({} if config is None else config_columns(config)),
                "measurement_version": MEASUREMENT_VERSION,
                "sweep": self._sweep,
                **{name: record[name] for name in ("trial_id", "round", "attempt", "order")},
                "flags": [],
                "outcome": "interrupted",
                "reason": "bench itself stopped unexpectedly during this launch",
            }
            self.finish(row, [])
            left = f"; killed {counted(len(killed), 'leftover process')}" if killed else ""
            done.append(f"a launch of {record['trial_id']} was cut off when bench stopped unexpectedly{left}")
        return done

    def drop_damaged(self) -> list[str]:
        """Drop launches whose parts do not match the journal; return what was done.

        The files stay where they are, under their own names; the launches run again.
        """
        done = []
        for launch in list(self.history.launches()):
            try:
                verify_part(self._paths.folder, PartInfo.from_journal(launch))
            except StorageError as error:
                fields = ("trial_id", "round", "attempt", "part")
                self.append({"kind": "damaged", **{name: launch[name] for name in fields}, "reason": str(error)})
                done.append(f"{error} Its launch runs again.")
        return done


def row_of(
    sweep: str,
    launch: PlannedLaunch,
    end: LaunchEnd,
    started_utc: str,
    health: Health = NOT_WATCHED,
    contradiction: str | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Make the row of a launch and its update rows from how its ranks ended and how its GPUs were.

    `contradiction` says why no figure of a launch that ended well can be trusted; None where nothing does.

    Raises:
        StorageError: A rank could not write for want of space: its end says nothing about the trial.
    """
    config = launch.trial.config
    outcome = decide(end.ranks, end.stopped)
    _refuse_full_disk(end)
    columns: dict[str, Any] = {}
    updates: list[dict[str, Any]] = []
    try:
        documents = [rank.document for rank in end.ranks if rank.document is not None]
        columns, updates = reduce_ranks(documents, config.world_size)
    except ReduceError as error:
        contradiction = str(error)  # the ranks contradict each other: no figure of this launch can be trusted
    row: dict[str, Any] = {
        **columns,
        **health.columns,
        **config_columns(config),
        **{key: value for key, value in asdict(outcome).items() if key != "micro_batch"},
        "measurement_version": MEASUREMENT_VERSION,
        "sweep": sweep,
        "trial_id": launch.trial.trial_id,
        "round": launch.round,
        "attempt": launch.attempt,
        "order": launch.order,
        "flags": sorted({*(columns.get("flags") or []), *end.flags, *health.flags}),
        "started_utc": started_utc,
        "launch_s": end.seconds,
    }
    if outcome.micro_batch is not None:
        row["reason"] = f"{row['reason']} (micro-batch {outcome.micro_batch})"
    if row["outcome"] == "oom" and "gpu_shared" in row["flags"]:
        row["reason"] = f"{row['reason']}; another process used the GPU meanwhile: without it, this may fit"
    if contradiction is not None and row["outcome"] == "ok":
        row |= {"outcome": "invalid", "reason": contradiction, "phase": "finish"}
    row = derive(row, updates)
    row["flags"] = sorted({*row["flags"], *doubts_of_derived(row)})
    if config.device == "cuda" and is_standin():
        return bytes_only(row, has_values()), updates_of_bytes_only(updates, has_values())
    return row, updates


def _refuse_full_disk(end: LaunchEnd) -> None:
    for rank in end.ranks:
        text = "" if rank.document is None else str(rank.document.get("error_text") or "")
        said = f"{text} {rank.last_line or ''}"
        for number in (errno.ENOSPC, errno.EDQUOT):
            if f"[Errno {number}]" in said:
                raise StorageError(
                    f"rank {rank.rank} could not write: {os.strerror(number)}. Free some space, or inodes, and run "
                    "the command again: everything finished is kept."
                )
