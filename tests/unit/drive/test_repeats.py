"""Launches in a row that got nowhere in the same way."""

from __future__ import annotations

from typing import Any

from bench.drive.repeats import Repeats


def notes(*ends: tuple[str, str | None]) -> list[int]:
    """Say after which launches something was noted."""
    repeats = Repeats()
    rows: list[dict[str, Any]] = [{"outcome": outcome, "phase": phase} for outcome, phase in ends]
    return [number for number, row in enumerate(rows, start=1) if repeats.note(row) is not None]


def test_second_launch_in_a_row_that_is_stopped_at_the_same_place_is_told_of_once() -> None:
    """Neither the first nor the third; another end between them begins anew."""
    stuck = ("timeout", "join")
    assert notes(stuck, stuck, stuck) == [2]
    assert notes(stuck, ("ok", None), stuck, stuck) == [4]
    assert notes(stuck, ("timeout", "build"), ("hang", "build"), ("hang", "build")) == [4]


def test_results_and_errors_of_the_trials_own_are_never_told_of() -> None:
    """They say what they are themselves, and take no limit's time."""
    assert notes(("oom", "forward"), ("oom", "forward"), ("failed", "build"), ("failed", "build")) == []


def test_hint_says_what_it_may_be_and_how_to_stop() -> None:
    """In the words of the place where the ranks were."""
    repeats = Repeats()
    repeats.note({"outcome": "timeout", "phase": "join"})
    text = repeats.note({"outcome": "timeout", "phase": "join"})
    assert text is not None
    assert "2 launches in a row ended as timeout in join" in text
    assert "could not connect" in text
    assert "Ctrl-C" in text
    repeats = Repeats()
    repeats.note({"outcome": "hang", "phase": "backward"})
    assert "another process" in str(repeats.note({"outcome": "hang", "phase": "backward"}))
