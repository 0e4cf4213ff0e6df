"""What a checklist amounts to."""

from __future__ import annotations

import pytest

from bench.check.exchange.lines import TITLES, Line, failed, merge, overall, unproven


def line(name: str, verdict: str, figure: float | None = None, words: str = "") -> Line:
    return Line(name, verdict, figure, words)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [
        (["PASS", "NOT APPLICABLE"], "PASS"),
        (["PASS", "NOT PROVEN"], "NOT PROVEN"),
        (["PASS", "NOT PROVEN", "FAIL"], "FAIL"),
        (["NOT APPLICABLE"], "NOT PROVEN"),
        ([], "NOT PROVEN"),
    ],
)
def test_the_gravest_line_decides_and_nothing_proved_is_no_pass(verdicts: list[str], whole: str) -> None:
    """NOT PROVEN is never counted as PASS."""
    assert overall(line("weighting", verdict) for verdict in verdicts) == whole


def test_joined_checklists_keep_the_gravest_of_each_line_then_the_largest_figure() -> None:
    """What one of them proved and another had nothing to say about is proved."""
    one = [line("weighting", "PASS", 1e-16), line("gradient_sync", "NOT APPLICABLE"), line("update", "FAIL", 0.1)]
    other = [line("update", "PASS", 9.0), line("weighting", "PASS", 3e-16), line("gradient_sync", "PASS", 1.0)]
    joined = merge([one, other])
    assert [(each.name, each.verdict, each.figure) for each in joined] == [
        ("weighting", "PASS", 3e-16),
        ("update", "FAIL", 0.1),
        ("gradient_sync", "PASS", 1.0),
    ]


def test_line_survives_json() -> None:
    """A rank writes it, the driver reads it."""
    one = line("clipping", "FAIL", 0.25, "wrong")
    assert Line(**one.as_row()) == one


def test_one_reason_stands_for_a_checklist_that_was_not_made() -> None:
    """A step that cannot run fails; a model that cannot be tried is not proved."""
    assert overall(failed("no such module")) == "FAIL"
    assert overall(unproven("too large")) == "NOT PROVEN"
    assert next(iter(TITLES)) == failed("")[0].name
