"""What else the rounds of a pair tell, held against what simulated rounds do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.measure.intervals import pair_interval
from bench.measure.verdict import judge
from bench.report.pair_statistics import pair_statistics


def speeds(logs: np.ndarray) -> dict[tuple[int], float]:
    return {(number,): math.exp(value) for number, value in enumerate(logs)}


def statistics(differences: np.ndarray):
    base = np.zeros_like(differences)
    return pair_statistics(speeds(base), speeds(differences), pair_interval(differences))


def test_only_rounds_in_common_are_paired() -> None:
    """A round of one side alone changes nothing."""
    differences = np.array([0.01, 0.02, 0.015, 0.012, 0.018, 0.011])
    more = speeds(np.zeros(6)) | {(99,): 5.0}
    assert pair_statistics(more, speeds(differences), pair_interval(differences)) == statistics(differences)
    assert statistics(differences).sign_flip_p == 2 / 64


def test_rounds_without_spread_find_whatever_clears_the_margin() -> None:
    """Nothing varies: 0.5 % is found, and the fewest rounds that make an interval do."""
    found = statistics(np.full(6, 0.02))
    assert found.detectable_change == pytest.approx(0.005)
    assert set(found.rounds_for.values()) == {3}


@pytest.mark.slow
def test_the_change_that_rounds_can_find_is_called_four_times_in_five() -> None:
    """Six rounds at a spread that is known: the verdict is faster in 80 % of simulated comparisons."""
    generator = np.random.default_rng(5)
    sd = 0.01
    change = np.mean([statistics(generator.normal(0, sd, 6)).detectable_change for _ in range(300)])
    called = [
        judge([pair_interval(generator.normal(math.log1p(change), sd, 6))])[0].word == "faster" for _ in range(1000)
    ]
    assert 0.7 < np.mean(called) < 0.9


@pytest.mark.slow
def test_the_rounds_for_a_half_width_reach_it() -> None:
    """Half of the simulated intervals of so many rounds are about as narrow as said."""
    generator = np.random.default_rng(6)
    rounds = statistics(np.array([0.01, -0.01] * 20)).rounds_for[0.01]
    assert rounds is not None
    widths = [pair_interval(generator.normal(0, 0.01, rounds)).half_width for _ in range(400)]
    assert np.median(widths) < 0.0105
