"""How a launch ended, decided from what the ranks wrote, how their processes ended, and where they were.

A worker never judges a launch: ok needs exit 0 of every rank *and* a whole result of every rank. Only in the witnessed
updates, which come last and decide nothing, may a rank end in any way: its result is whole before.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.launch.heartbeat import Beat
from bench.launch.watchdog import Stopped, progress

WITH_STACKS = frozenset({"hang", "timeout"})
"""Outcomes of launches that the driver stopped because they got nowhere: where every thread was is part of the row."""


@dataclass(frozen=True)
class RankEnd:
    """State how one rank ended."""

    rank: int
    exit_code: int | None
    """As the process was reaped: negative for a signal; None when it had to be given up."""
    document: Mapping[str, Any] | None
    """Its `rank-N.json`; None when it wrote none."""
    beat: Beat | None
    """Its last sign of life."""
    last_line: str | None = None
    """The last line it printed."""
    ended_by_driver: bool = False
    """True when the driver ended it, so that its exit code says nothing about the cause."""
    stacks: str | None = None
    """Where its threads were, when it was asked because it hung or took too long."""


@dataclass(frozen=True)
class Outcome:
    """State how a launch ended and, unless ok, why."""

    outcome: str
    reason: str | None = None
    phase: str | None = None
    micro_batch: int | None = None
    failing_rank: int | None = None
    error_class: str | None = None
    error_text: str | None = None
    exit_code: int | None = None
    signal: int | None = None


def decide(ends: Sequence[RankEnd], stopped: Stopped | None = None) -> Outcome:
    """Decide how a launch ended from how each of its ranks did.

    Args:
        ends: one per rank.
        stopped: why the driver stopped the launch itself; None if it did not. An error that a rank wrote before it
            was stopped still counts first.
    """
    if (stopped is None or stopped.outcome != "interrupted") and all(map(_is_measured, ends)):
        return Outcome("ok", exit_code=0)
    told = [end for end in ends if end.document is not None and end.document["outcome"] != "ok"]
    causes = [end for end in told if not _is_secondary(end)]
    if causes:
        return _from_document(min(causes, key=_order_of_cause))
    if stopped is not None:
        behind = min(ends, key=lambda end: progress(end.beat))
        blamed = next((end for end in ends if end.rank == stopped.rank), behind)
        if stopped.outcome not in WITH_STACKS:
            return _from_beat(stopped.outcome, stopped.reason, blamed)
        outcome = _from_beat(stopped.outcome, f"{stopped.reason} ({_whereabouts(ends)})", blamed)
        return replace(outcome, error_text=blamed.stacks)
    by_themselves = [end for end in ends if not end.ended_by_driver]
    killed = [end for end in by_themselves if end.exit_code is None or end.exit_code < 0]
    if killed:
        return _killed(min(killed, key=lambda end: 0.0 if end.beat is None else end.beat.monotonic_s))
    silent = [end for end in by_themselves if end.document is None]
    if silent:
        end = silent[0]
        said = f"; its last output: {end.last_line}" if end.last_line else ""
        reason = f"rank {end.rank} left early with exit code {end.exit_code} and no result{said}"
        return _from_beat("failed", reason, end, exit_code=end.exit_code)
    if told:
        return _from_document(min(told, key=_order_of_cause))
    unfinished = [end for end in ends if end.document is None or end.exit_code != 0]
    if unfinished:
        end = unfinished[0]
        reason = f"rank {end.rank} did not end cleanly after its peers (exit code {end.exit_code})"
        return _from_beat("failed", reason, end, exit_code=end.exit_code)
    return Outcome("ok", exit_code=0)


def _is_measured(end: RankEnd) -> bool:
    """Tell whether a rank's result is whole and good, whatever became of it in its witnessed updates."""
    if end.document is None or end.document["outcome"] != "ok":
        return False
    return end.exit_code == 0 or end.document.get("is_witnessed") is False


_GRAVITY = {"oom": 0, "oom_host": 0, "invalid": 2, "failed": 1}
_SECONDARY = re.compile(r"Connection (closed|reset) by peer|Broken pipe|Connection refused|Timed out waiting")


def _is_secondary(end: RankEnd) -> bool:
    """Tell whether a rank's error only follows from the end of a peer."""
    assert end.document is not None
    return bool(_SECONDARY.search(end.document.get("error_text") or ""))


def _order_of_cause(end: RankEnd) -> tuple[int, float]:
    """Sort by severity, then by time: the first real error is the cause."""
    assert end.document is not None
    return _GRAVITY.get(end.document["outcome"], 1), float(end.document.get("time") or 0.0)


def _from_document(end: RankEnd) -> Outcome:
    assert end.document is not None
    document = end.document
    return Outcome(
        outcome=document["outcome"],
        reason=document["reason"],
        phase=document["phase"],
        micro_batch=document["micro_batch"],
        failing_rank=end.rank,
        error_class=document["error_class"],
        error_text=document["error_text"],
        exit_code=end.exit_code if end.exit_code is not None and end.exit_code >= 0 else None,
        signal=-end.exit_code if end.exit_code is not None and end.exit_code < 0 else None,
    )


def _killed(end: RankEnd) -> Outcome:
    if end.exit_code is None:
        return _from_beat("killed", f"rank {end.rank} left no exit code", end)
    number = -end.exit_code
    name = signal.Signals(number).name if number in signal.valid_signals() else f"signal {number}"
    hint = " (the kernel sends it when host memory is full)" if number == signal.SIGKILL else ""
    return _from_beat("killed", f"rank {end.rank} was killed by {name}{hint}", end, signal_number=number)


def _whereabouts(ends: Sequence[RankEnd]) -> str:
    """Say where each rank was, least far first, ranks of one place together: "rank 1: build; rank 0: join"."""
    at: dict[str, list[int]] = {}
    for end in sorted(ends, key=lambda end: progress(end.beat)):
        at.setdefault(_place(end), []).append(end.rank)
    return "; ".join(
        f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, sorted(ranks)))}: {place}" for place, ranks in at.items()
    )


def _place(end: RankEnd) -> str:
    ended = "" if end.ended_by_driver else f", ended with exit code {end.exit_code}"
    if end.beat is None:
        return f"no sign of life{ended}"
    update = f" of update {end.beat.update}" if end.beat.update >= 0 else ""
    return f"{end.beat.phase}{update}{ended}"


def _from_beat(
    outcome: str, reason: str, end: RankEnd, *, exit_code: int | None = None, signal_number: int | None = None
) -> Outcome:
    beat = end.beat
    return Outcome(
        outcome=outcome,
        reason=reason,
        phase=beat.phase if beat is not None else "start" if outcome in WITH_STACKS else None,
        micro_batch=None if beat is None or beat.micro_batch < 0 else beat.micro_batch,
        failing_rank=end.rank,
        exit_code=exit_code,
        signal=signal_number,
    )
