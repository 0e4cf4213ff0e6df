"""What else the rounds of a pair tell, held against what simulated rounds do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.decide.pair_statistics import pair_statistics
from bench.statistics.intervals import layout_intervals, minimum_detectable_effect, pair_interval
from bench.statistics.verdict import CLEAR, judge


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
    assert 0.75 < np.mean(called) < 0.85


@pytest.mark.slow
@pytest.mark.parametrize(("configurations", "rounds"), [(2, 3), (6, 3), (12, 6)])
def test_the_change_is_found_as_often_among_many_candidates(configurations: int, rounds: int) -> None:
    """Holm asks more of each where many are judged, and three rounds tell little of the spread."""
    generator = np.random.default_rng(7)

    def intervals(change: float):
        layout = generator.normal(0, 0.003, (configurations, rounds))
        layout[1] += change
        return layout_intervals(layout, [(0, other) for other in range(1, configurations)])

    found = [minimum_detectable_effect(intervals(0.0)[0], CLEAR, comparisons=configurations - 1) for _ in range(400)]
    called = [judge(intervals(float(np.mean(found))))[0].word == "faster" for _ in range(1000)]
    assert 0.75 < np.mean(called) < 0.85


@pytest.mark.slow
def test_the_rounds_for_a_half_width_reach_it() -> None:
    """Half of the simulated intervals of so many rounds are about as narrow as said."""
    generator = np.random.default_rng(6)
    rounds = statistics(np.array([0.01, -0.01] * 20)).rounds_for[0.01]
    assert rounds is not None
    widths = [pair_interval(generator.normal(0, 0.01, rounds)).half_width for _ in range(400)]
    assert np.median(widths) < 0.0105
