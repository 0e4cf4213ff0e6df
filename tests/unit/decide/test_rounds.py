"""Speeds from unequal rounds: the rounds are taken off, ranks and differences agree, intervals keep their rate."""

import math
import random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bench.decide.rounds import RoundFit
from bench.decide.verdicts import judge_speeds
from bench.statistics.intervals import layout_intervals, log_ratios, pair_interval


def blocks(rates):
    return {("a", "s", "h", number): rate for number, rate in rates.items()}


def planted(truth, rounds, sd, missing, seed, drift=0.05):
    """Speeds of configurations with these true logarithms, in rounds that drift; `missing` drops launches at random."""
    noise = random.Random(seed)
    shared = [noise.gauss(0, drift) for _ in range(rounds)]
    speeds = []
    for true in truth:
        kept = [k for k in range(rounds) if noise.random() >= missing] or [noise.randrange(rounds)]
        speeds.append(blocks({k: math.exp(true + shared[k] + noise.gauss(0, sd)) for k in kept}))
    return speeds


def test_whoever_was_measured_in_fast_rounds_only_gains_nothing():
    """Equal in the shared round, so equal: the plain means would differ by 50 %."""
    fit = RoundFit([blocks({0: 100.0, 1: 200.0}), blocks({0: 100.0}), blocks({0: 50.0, 1: 100.0})])
    assert fit.log_ratio(0, 1) == pytest.approx(0.0, abs=1e-12)
    assert fit.log_ratio(0, 2) == pytest.approx(math.log(0.5))


@given(st.integers(2, 5), st.integers(2, 6), st.integers(0, 10**6))
def test_a_complete_layout_gives_the_paired_interval(configs, rounds, seed):
    """Nothing missing: the same ratio and interval as pairing by round, pooled over configurations."""
    speeds = planted([0.0] * configs, rounds, 0.01, 0.0, seed)
    layout = [[math.log(rate) for rate in one.values()] for one in speeds]
    expected = layout_intervals(layout, [(0, other) for other in range(1, configs)])
    for place, interval in enumerate(RoundFit(speeds).intervals(0)[1:]):
        assert interval == expected[place]


def test_two_configurations_give_the_interval_of_their_shared_rounds():
    """With nobody else to tell what the other rounds did, the further launches say nothing."""
    one, two = blocks({0: 1.0, 1: 1.1, 2: 0.9, 3: 5.0}), blocks({0: 1.2, 1: 1.25, 2: 1.11})
    interval = RoundFit([one, two]).interval(0, 1)
    paired = pair_interval(log_ratios([1.0, 1.1, 0.9], [1.2, 1.25, 1.11]))
    assert (interval.low, interval.high) == (pytest.approx(paired.low), pytest.approx(paired.high))


@given(st.integers(3, 8), st.integers(2, 5), st.integers(0, 10**6))
def test_differences_are_transitive_and_those_of_least_squares(configs, rounds, seed):
    """A over B times B over C is A over C, as a solver finds from the same equations."""
    speeds = planted([0.1 * c for c in range(configs)], rounds, 0.01, 0.3, seed)
    fit = RoundFit(speeds)
    places = sorted({block for one in speeds for block in one})
    design, logs = [], []
    for config, one in enumerate(speeds):
        for block, rate in one.items():
            row = np.zeros(configs + len(places))
            row[config] = row[configs + places.index(block)] = 1
            design.append(row)
            logs.append(math.log(rate))
    solved = np.linalg.lstsq(np.array(design), np.array(logs), rcond=None)[0]
    connected = np.linalg.matrix_rank(np.array(design)) == configs + len(places) - 1
    assume(connected)
    for one in range(configs):
        for other in range(configs):
            assert fit.log_ratio(one, other) == pytest.approx(solved[other] - solved[one], abs=1e-9)


def test_rounds_that_share_no_configuration_are_compared_by_plain_means_without_interval():
    """Nothing says what the other rounds did: an estimate, and no more."""
    (verdict,) = judge_speeds(blocks({0: 100.0, 1: 100.0}), [blocks({7: 90.0, 8: 90.0})])
    assert (verdict.ratio, verdict.ratio_low) == (pytest.approx(0.9), None)
    assert verdict.note == "no round in common: not measured side by side"


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_intervals_hold_the_truth_at_their_rate(missing):
    """Six configurations in four rounds, some launches missing: 95 % intervals hold the truth 93 to 97 times of 100."""
    truth, hits, made = [0.02 * c for c in range(6)], 0, 0
    for seed in range(1500):
        fit = RoundFit(planted(truth, 4, 0.01, missing, seed))
        for other, interval in enumerate(fit.intervals(0)):
            if interval is not None:
                made += 1
                hits += interval.low <= truth[other] - truth[0] <= interval.high
    assert 0.93 <= hits / made <= 0.97


@settings(max_examples=60)
@given(st.integers(2, 12), st.integers(2, 4), st.sampled_from([0.001, 0.01, 0.05]), st.integers(0, 10**6))
def test_judging_never_changes_a_sign(configs, rounds, sd, seed):
    """The verdict of a pair has the sign of its rank, whoever is the baseline."""
    speeds = planted([0.0] * configs, rounds, sd, 0.25, seed)
    fit = RoundFit(speeds)
    best = int(np.argmax(fit.log_speeds))
    for interval in fit.intervals(best):
        assert interval is None or interval.log_ratio <= 1e-12
