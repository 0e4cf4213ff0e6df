"""How a launch ended, from literal ends of its ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.launch.heartbeat import Beat
from bench.launch.outcome import RankEnd, decide
from bench.launch.watchdog import Stopped


def document(outcome: str, text: str = "boom", time: float = 1.0, **changes: Any) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "reason": f"Error: {text}",
        "phase": "backward",
        "micro_batch": 2,
        "error_class": "builtins.RuntimeError",
        "error_text": text,
        "time": time,
    } | changes


def beat(at: float, phase: str = "forward") -> Beat:
    return Beat(phase, 3, 1, at, 10)


OK = document("ok")


def test_ok_needs_exit_zero_and_a_result_of_every_rank() -> None:
    """Both are needed, from all."""
    assert decide([RankEnd(0, 0, OK, None), RankEnd(1, 0, OK, None)]).outcome == "ok"
    assert decide([RankEnd(0, 0, OK, None), RankEnd(1, 0, None, None)]).outcome == "failed"
    assert decide([RankEnd(0, 0, OK, None), RankEnd(1, 0, None, None, ended_by_driver=True)]).outcome == "failed"
    assert decide([RankEnd(0, 0, OK, None), RankEnd(1, 7, OK, None)]).outcome == "failed"
    assert decide([RankEnd(0, 0, OK, None), RankEnd(1, -9, OK, None)]).outcome == "killed"


MEASURED = document("ok", is_witnessed=False)


@pytest.mark.parametrize("code", [1, 87, -9, -6, None])
def test_whole_result_stands_whatever_the_witnessed_updates_came_to(code: int | None) -> None:
    """They come last: a rank that fails, is killed or hangs there, and peers that are ended for it, change nothing."""
    failed = RankEnd(1, code, MEASURED, None)
    for peer in (RankEnd(0, 0, OK, None), RankEnd(0, -2, MEASURED, None, ended_by_driver=True)):
        for stopped in (None, Stopped("hang", "no progress", 1), Stopped("timeout", "too long")):
            assert decide([peer, failed], stopped).outcome == "ok"
    assert decide([RankEnd(0, 0, OK, None), failed], Stopped("interrupted", "Ctrl-C")).outcome == "interrupted"
    assert decide([RankEnd(0, 1, document("oom"), None), failed]).outcome == "oom"
    assert decide([RankEnd(0, -9, None, None), failed]).outcome == "killed"


def test_rank_that_left_silently_is_the_cause_not_the_peer_whose_connection_broke() -> None:
    """An error that a peer's end causes is second to that end.

    Case: torch's launcher blames the rank that complains.
    """
    complains = document("failed", "Connection closed by peer [127.0.0.1]:4711", time=0.5)
    outcome = decide([RankEnd(0, 1, complains, None), RankEnd(1, 0, None, beat(1.0))])
    assert (outcome.outcome, outcome.failing_rank) == ("failed", 1)
    assert "left early" in (outcome.reason or "")


def test_oom_is_the_cause_even_when_another_rank_failed_earlier() -> None:
    """Out of memory weighs more than what it makes others say."""
    outcome = decide(
        [
            RankEnd(0, 1, document("failed", "NCCL error", time=1.0), None),
            RankEnd(1, 1, document("oom", time=2.0), None),
        ]
    )
    assert (outcome.outcome, outcome.failing_rank, outcome.phase, outcome.micro_batch) == ("oom", 1, "backward", 2)


def test_of_several_errors_the_first_in_time_is_the_cause() -> None:
    """Time has fractions of a second."""
    ends = [
        RankEnd(0, 1, document("failed", "late", time=10.30), None),
        RankEnd(1, 1, document("failed", "early", time=10.29), None),
    ]
    assert decide(ends).failing_rank == 1


def test_ranks_that_the_driver_ended_are_not_called_killed() -> None:
    """The driver's own SIGTERM says nothing about the cause."""
    ends = [
        RankEnd(0, -15, None, beat(2.0), ended_by_driver=True),
        RankEnd(1, -9, None, beat(1.0)),
    ]
    outcome = decide(ends)
    assert (outcome.outcome, outcome.failing_rank, outcome.signal) == ("killed", 1, 9)
    assert "SIGKILL" in (outcome.reason or "")


def test_stop_by_the_driver_names_the_rank_that_was_silent_longest_and_where_it_was() -> None:
    """The oldest heartbeat is the one that hangs."""
    ends = [
        RankEnd(0, -15, None, beat(9.0, "backward"), ended_by_driver=True),
        RankEnd(1, -15, None, beat(4.0, "update"), ended_by_driver=True),
    ]
    outcome = decide(ends, Stopped("timeout", "too long"))
    assert (outcome.outcome, outcome.failing_rank, outcome.phase, outcome.micro_batch) == ("timeout", 1, "update", 1)


@pytest.mark.parametrize("outcome", ["hang", "timeout"])
def test_row_of_a_launch_that_got_nowhere_says_where_every_rank_was(outcome: str) -> None:
    """Least far first, with the stacks of that rank; a start that timed out is as open to questions as a hang."""
    ends = [
        RankEnd(0, -15, None, replace(beat(5.0, "join"), update=-1), ended_by_driver=True, stacks="in the store"),
        RankEnd(1, -15, None, None, ended_by_driver=True, stacks="in an import"),
        RankEnd(2, -15, None, replace(beat(6.0, "join"), update=-1), ended_by_driver=True),
        RankEnd(3, 0, None, beat(7.0, "update")),
    ]
    found = decide(ends, Stopped(outcome, "too long"))
    assert (found.outcome, found.failing_rank, found.error_text) == (outcome, 1, "in an import")
    assert found.reason == (
        "too long (rank 1: no sign of life; ranks 0, 2: join; rank 3: update of update 3, ended with exit code 0)"
    )


def test_error_written_before_the_stop_still_counts_first() -> None:
    """A timeout while peers wait for a rank that failed is that rank's failure."""
    ends = [RankEnd(0, -15, None, beat(9.0), ended_by_driver=True), RankEnd(1, 1, document("failed"), beat(4.0))]
    assert decide(ends, Stopped("timeout", "too long")).outcome == "failed"


def test_invalid_result_is_not_ok() -> None:
    """A rank may say that its own figures mean nothing."""
    outcome = decide([RankEnd(0, 1, document("invalid"), None)])
    assert outcome.outcome == "invalid"
