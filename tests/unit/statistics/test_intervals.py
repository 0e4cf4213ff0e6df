"""Intervals of log ratios: from a pair alone, from a whole sweep, and what more blocks would give."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.statistics.intervals import (
    Interval,
    blocks_needed,
    holm,
    layout_intervals,
    log_ratios,
    minimum_detectable_effect,
    pair_interval,
    residual_sd,
    sign_flip_p,
    spreads_differ,
)

DIFFERENCES = [0.011, 0.008, 0.013, 0.009, 0.012, 0.007]


def test_few_blocks_get_the_interval_of_the_paired_t_test() -> None:
    """Held against scipy's own."""
    found = pair_interval(DIFFERENCES)
    reference = stats.ttest_1samp(DIFFERENCES, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high))
    assert (found.method, found.df, found.blocks) == ("t", 5, 6)
    assert found.p_beyond(0.0) == pytest.approx(stats.ttest_1samp(DIFFERENCES, 0).pvalue)
    assert found.ratio == pytest.approx(math.exp(0.01))


def test_many_blocks_get_a_bootstrap_t_that_leans_with_the_data() -> None:
    """Skewed blocks make the two sides unequal; the same seed gives the same ends."""
    skewed = np.random.default_rng(3).exponential(0.01, 20)
    found = pair_interval(skewed)
    assert found.method == "bootstrap_t"
    assert found.high - found.log_ratio > 1.2 * (found.log_ratio - found.low)
    assert pair_interval(skewed) == found
    assert pair_interval(skewed[:14]).method == "t"


@given(st.lists(st.floats(-0.1, 0.1), min_size=15, max_size=25), st.floats(-0.02, 0.02))
def test_a_bootstrap_p_value_agrees_with_its_interval(values: list[float], margin: float) -> None:
    """Below 5 % the interval clears the margin, above 5 % it does not."""
    found = pair_interval(values)
    margin = abs(margin)
    p_value = found.p_beyond(margin)
    clears = found.low > margin or found.high < -margin
    if abs(p_value - 0.05) > 0.002:
        assert clears == (p_value < 0.05)


def test_equal_blocks_have_an_interval_of_no_width() -> None:
    """Nothing varies, so nothing is unsure."""
    found = pair_interval([0.25] * 16)
    assert (found.low, found.high) == (0.25, 0.25)
    assert found.p_beyond(0.2) == 0.0
    assert found.p_beyond(0.3) == 1.0


def test_rates_are_paired_by_round_and_must_be_rates() -> None:
    """Nothing is guessed for a missing or broken rate."""
    assert log_ratios([1.0, 2.0], [math.e, 2.0]).tolist() == pytest.approx([1.0, 0.0])
    with pytest.raises(ValueError, match="paired"):
        log_ratios([1.0, 2.0], [1.0])
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="positive"):
            log_ratios([1.0, 2.0], [1.0, bad])
    with pytest.raises(ValueError, match="at least 2"):
        pair_interval([0.1])


def make_layout(configurations: int, rounds: int, sds: list[float], seed: int = 1) -> np.ndarray:
    """Make ln(rate) with effects of configurations and of rounds, which must drop out."""
    generator = np.random.default_rng(seed)
    effects = np.linspace(0, 1, configurations)[:, np.newaxis] + generator.normal(0, 0.1, rounds)
    return effects + generator.standard_normal((configurations, rounds)) * np.array(sds)[:, np.newaxis]


def test_a_sweep_shares_its_residual_over_all_pairs() -> None:
    """The residual of a complete layout, with (C - 1)(K - 1) degrees of freedom, is that of two-way analysis."""
    layout = make_layout(12, 3, [0.006] * 12)
    (found,) = layout_intervals(layout, [(2, 7)])
    fitted = layout.mean(axis=1, keepdims=True) + layout.mean(axis=0) - layout.mean()
    sd = math.sqrt(((layout - fitted) ** 2).sum() / 22)
    assert residual_sd(layout) == pytest.approx(sd)
    assert (found.method, found.df) == ("pooled_t", 22)
    assert found.log_ratio == pytest.approx(np.mean(layout[7] - layout[2]))
    assert found.half_width == pytest.approx(stats.t.ppf(0.975, 22) * sd * math.sqrt(2 / 3))
    assert found.half_width < pair_interval(layout[7] - layout[2]).half_width


def test_configurations_of_unlike_spread_stand_alone() -> None:
    """A noisy configuration must not lend its noise, nor borrow quiet."""
    layout = make_layout(6, 8, [0.001] * 5 + [0.1])
    assert spreads_differ(layout)
    (found,) = layout_intervals(layout, [(0, 1)])
    assert found == pair_interval(layout[1] - layout[0])
    assert not spreads_differ(make_layout(6, 8, [0.01] * 6))


def test_a_layout_with_holes_or_without_rounds_is_refused() -> None:
    """A residual needs every configuration in every round."""
    with pytest.raises(ValueError, match="not complete"):
        layout_intervals([[1.0, math.nan], [1.0, 2.0]], [(0, 1)])
    with pytest.raises(ValueError, match="2 rounds"):
        layout_intervals([[1.0], [2.0]], [(0, 1)])


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=6), st.floats(-3, 3), st.integers(0, 1000))
def test_round_effects_drop_out(values: list[float], shift: float, seed: int) -> None:
    """Adding anything to a whole round changes no interval."""
    layout = make_layout(len(values) + 1, 4, [0.01] * (len(values) + 1), seed)
    moved = layout + shift * np.arange(4)
    (one,), (other,) = layout_intervals(layout, [(0, 1)]), layout_intervals(moved, [(0, 1)])
    assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-9)


def test_sign_flips_are_counted_exactly() -> None:
    """Six blocks of one sign reach 2 / 64, five cannot reach 5 %."""
    assert sign_flip_p(DIFFERENCES) == pytest.approx(2 / 64)
    assert sign_flip_p(DIFFERENCES[:5]) == pytest.approx(2 / 32)
    assert sign_flip_p([1.0, -1.0]) == 1.0
    reference = stats.permutation_test(
        ([0.3, -0.1, 0.2, 0.25],), np.mean, permutation_type="samples", n_resamples=np.inf
    ).pvalue
    assert sign_flip_p([0.3, -0.1, 0.2, 0.25]) == pytest.approx(reference)


def test_many_blocks_flip_by_a_seeded_draw() -> None:
    """Beyond what can be counted, the p value is never 0 and repeats."""
    values = [0.01] * 25
    assert 0 < sign_flip_p(values) < 0.001
    assert sign_flip_p([*values, -0.02], seed=4) == sign_flip_p([*values, -0.02], seed=4)


@pytest.mark.parametrize(
    ("launch_sd", "blocks"), [(0.002, (4, 3, 3)), (0.003, (6, 4, 3)), (0.006, (14, 6, 4)), (0.01, (34, 11, 5))]
)
def test_blocks_needed_are_those_of_the_published_table(launch_sd: float, blocks: tuple[int, ...]) -> None:
    """For half-widths of 0.5, 1 and 2 %; worked out by hand from Student's t."""
    block_sd = math.sqrt(2) * launch_sd
    assert tuple(blocks_needed(block_sd, width) for width in (0.005, 0.01, 0.02)) == blocks


@given(st.floats(1e-5, 0.2), st.floats(1e-3, 0.1))
def test_blocks_needed_reach_the_width_and_one_fewer_does_not(block_sd: float, width: float) -> None:
    """The least number, not an approximation of it."""
    found = blocks_needed(block_sd, width)

    def half_width(blocks: int) -> float:
        return float(stats.t.ppf(0.975, blocks - 1)) * block_sd / math.sqrt(blocks)

    if found is None:
        assert half_width(10_000) > width
    else:
        assert half_width(found) <= width * (1 + 1e-9)
        assert found == 3 or half_width(found - 1) > width * (1 - 1e-9)


def test_no_width_is_never_reached() -> None:
    """Null, not an endless search."""
    assert blocks_needed(0.01, 0.0) is None
    assert blocks_needed(10.0, 1e-6) is None


def test_the_detectable_effect_is_found_with_the_power_asked_for() -> None:
    """Simulated: about 80 % of compares with that true effect clear the margin."""
    blocks, sd, margin = 6, 0.004, 0.005
    interval = Interval(0, 0, 0, sd / math.sqrt(blocks), blocks - 1, blocks, "t")
    effect = minimum_detectable_effect(interval, margin)
    draws = np.random.default_rng(9).normal(effect, sd, (2000, blocks))
    found = np.mean([pair_interval(row).low > margin for row in draws])
    assert found == pytest.approx(0.8, abs=0.05)


def test_holm_multiplies_the_smallest_by_all_and_keeps_the_order() -> None:
    """A worked example."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_never_makes_a_p_value_smaller_nor_swaps_two(p_values: list[float]) -> None:
    """Adjusted values lie between the value and Bonferroni's, in the same order."""
    adjusted = holm(p_values)
    for value, after in zip(p_values, adjusted, strict=True):
        assert value <= after <= min(1.0, len(p_values) * value) + 1e-12
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    assert [adjusted[index] for index in order] == sorted(adjusted)
