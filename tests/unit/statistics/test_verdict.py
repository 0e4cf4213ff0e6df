"""Faster, slower, same, unclear: what an interval allows to be said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.statistics.intervals import Interval, pair_interval
from bench.statistics.verdict import judge


def interval(mean: float, half_width: float, blocks: int = 6) -> Interval:
    """Make a t interval of a given half-width."""
    reach = {6: 2.570582, 3: 4.302653}[blocks]
    error = half_width / reach
    return Interval(mean, mean - half_width, mean + half_width, error, blocks - 1, blocks, "t")


@pytest.mark.parametrize(
    ("mean", "half_width", "word"),
    [
        (0.010, 0.0049, "faster"),
        (0.010, 0.0052, "unclear"),
        (-0.010, 0.0049, "slower"),
        (0.000, 0.0098, "same"),
        (0.000, 0.0101, "unclear"),
        (0.004, 0.0050, "same"),
        (0.008, 0.0010, "faster"),
    ],
)
def test_the_whole_interval_decides(mean: float, half_width: float, word: str) -> None:
    """Beyond +-0.5 % on one side, inside +-1 %, or neither; what clears 0.5 % is not called the same."""
    (verdict,) = judge([interval(mean, half_width)])
    assert verdict.word == word
    assert (verdict.blocks_needed is None) == (word != "unclear")


def test_many_candidates_need_more_than_one_does() -> None:
    """A borderline winner among many is unclear: one of many clears by chance."""
    borderline = interval(0.010, 0.0049)
    assert judge([borderline])[0].word == "faster"
    together = judge([borderline, *[interval(0.0, 0.004)] * 9])
    assert [verdict.word for verdict in together] == ["unclear"] + ["same"] * 9
    assert together[0].p_value == pytest.approx(10 * borderline.p_beyond(0.00498754), rel=1e-3)
    assert judge([interval(0.03, 0.0049), *[interval(0.0, 0.004)] * 9])[0].word == "faster"


def test_an_unclear_verdict_says_how_many_blocks_would_settle_it() -> None:
    """More than there are, and enough for the interval to fit."""
    (verdict,) = judge([interval(0.02, 0.03, blocks=3)])
    assert verdict.word == "unclear"
    assert verdict.blocks_needed is not None
    assert verdict.blocks_needed > 3


@given(st.lists(st.floats(-0.05, 0.05), min_size=2, max_size=8))
def test_swapping_baseline_and_candidate_swaps_the_words(differences: list[float]) -> None:
    """Faster one way is slower the other."""
    (one,) = judge([pair_interval(differences)])
    (other,) = judge([pair_interval([-value for value in differences])])
    swapped = {"faster": "slower", "slower": "faster"}
    assert other.word == swapped.get(one.word, one.word)
