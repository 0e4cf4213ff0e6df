"""Rounds of two machines that were not measured side by side."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from bench.statistics.unpaired import unpaired_interval

LOGS = st.lists(st.integers(-1000, 1000), min_size=2, max_size=12)


@given(LOGS, LOGS)
def test_the_interval_is_that_of_the_welch_test(thousandths: list[int], others: list[int]) -> None:
    """Held against scipy's own."""
    assume(min(np.ptp(thousandths), np.ptp(others)) > 0)  # without spread scipy gives nan
    one, other = np.array(thousandths) / 1000, np.array(others) / 1000
    found = unpaired_interval(one, other)
    reference = stats.ttest_ind(other, one, equal_var=False).confidence_interval(0.95)
    assert (found.ratio_low, found.ratio_high) == pytest.approx(
        (math.exp(reference.low), math.exp(reference.high)), rel=1e-6
    )
    assert found.ratio == pytest.approx(math.exp(np.mean(other) - np.mean(one)))


def test_rounds_without_spread_leave_nothing_unsure() -> None:
    """Equal rounds on both sides."""
    found = unpaired_interval([0.0, 0.0], [math.log(0.5)] * 3)
    assert (found.ratio_low, found.ratio, found.ratio_high) == pytest.approx((0.5, 0.5, 0.5))


def test_a_single_round_has_no_interval() -> None:
    """On either side."""
    for one, other in (([0.1], [0.1, 0.2]), ([0.1, 0.2], [0.1])):
        with pytest.raises(ValueError, match="at least 2 of each"):
            unpaired_interval(one, other)


@pytest.mark.slow
def test_equal_machines_are_covered_as_often_as_promised() -> None:
    """95 % of intervals hold the truth with three rounds each, also where the spreads differ."""
    generator = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        found = unpaired_interval(generator.normal(0, 0.01, 3), generator.normal(0, 0.03, 3))
        held += found.low <= 0 <= found.high
    assert held >= 0.94 * 2000
