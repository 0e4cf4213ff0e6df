"""What a journal says has happened."""

from __future__ import annotations

from typing import Any

from bench.drive.history import History


def launch(outcome: str = "ok", attempt: int = 0, **more: Any) -> dict[str, Any]:
    part = {"part": f"parts/t-{attempt}", "sha256": "a", "updates_part": "u", "updates_sha256": "b"}
    return {"kind": "launch", "trial_id": "t", "round": 0, "attempt": attempt, "outcome": outcome, **part, **more}


def running(attempt: int) -> dict[str, Any]:
    return {"kind": "running", "trial_id": "t", "round": 0, "attempt": attempt}


def test_launch_that_began_and_never_ended_is_abandoned_until_it_is_settled() -> None:
    """Its number is never given again."""
    history = History([running(0), launch(), running(1)])
    assert [record["attempt"] for record in history.abandoned()] == [1]
    assert history.next_attempt(("t", 0)) == 2
    history.add(launch("interrupted", 1))
    assert history.abandoned() == []


def test_damaged_part_takes_its_launch_out_and_its_number_stays_used() -> None:
    """The failure that it had replaced does not come back as the result; the next has a number of its own."""
    history = History([launch("failed", 0), launch("ok", 1)])
    history.add({"kind": "damaged", "trial_id": "t", "round": 0, "attempt": 1, "part": "parts/t-1"})
    assert history.last(("t", 0)) is None
    assert history.count_outcomes() == {}
    assert history.next_attempt(("t", 0)) == 2
    assert [part.part for part in history.parts()] == ["parts/t-0"]
    history.add(launch("ok", 2))
    last = history.last(("t", 0))
    assert last is not None
    assert last["attempt"] == 2


def test_damaged_part_of_an_earlier_attempt_changes_nothing() -> None:
    """The latest one is whole."""
    history = History([launch("failed", 0), launch("ok", 1)])
    history.add({"kind": "damaged", "trial_id": "t", "round": 0, "attempt": 0, "part": "parts/t-0"})
    last = history.last(("t", 0))
    assert last is not None
    assert last["outcome"] == "ok"


def test_interrupted_launches_are_no_tries() -> None:
    """They say nothing about the trial."""
    history = History([launch("interrupted", 0), launch("failed", 1), launch("interrupted", 2)])
    assert history.tries(("t", 0)) == 1


def test_launches_know_the_memory_they_ran_under() -> None:
    """The latest that was written before them."""
    machines: list[dict[str, Any]] = [{"kind": "machine", "conditions": {"gpus": number}} for number in (1, 2)]
    history = History([machines[0], launch(), machines[1], launch(attempt=1)])
    assert [record["machine"]["gpus"] for record in history.launches()] == [1, 2]


def test_kinds_of_a_newer_version_are_passed_over() -> None:
    """A later bench may tell more; what this one knows stays readable."""
    assert History([{"kind": "weather", "sky": "blue"}, launch()]).count_outcomes() == {"ok": 1}
