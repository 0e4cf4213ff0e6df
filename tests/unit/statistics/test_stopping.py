"""A launch stops when its mean is known well enough for times that follow each other, or says that it is not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.statistics.stopping import StopRule, StopWatch, precision_of
from benchmarks.simulate import correlated_noise

RULE = StopRule(0.02, samples_at_least=10, seconds_at_least=1.0, seconds_at_most=20.0, samples_at_most=160)


def test_independent_times_get_students_t_or_wider() -> None:
    """Below 20 samples and without correlation the width is the textbook's."""
    times = [1.0, 1.2, 0.9, 1.05, 0.95, 1.1, 0.85, 1.15, 0.99, 1.01]
    found = precision_of(times)
    textbook = stats.t.ppf(0.975, 9) * np.std(times, ddof=1) / math.sqrt(10) / np.mean(times)
    assert found.lag1 == 0.0
    assert found.half_width == pytest.approx(textbook)
    assert found.spread == pytest.approx(np.std(times, ddof=1) / np.mean(times))
    assert found.mean_s == pytest.approx(np.mean(times))


def test_ten_batch_means_widen_the_interval_of_times_with_slow_waves() -> None:
    """Batches that differ show what neighbouring samples hide."""
    waves = np.repeat([1.0, 1.1, 1.0, 1.1, 1.0, 1.1, 1.0, 1.1, 1.0, 1.1], 20)
    found = precision_of(waves)
    of_batches = stats.t.ppf(0.975, 9) * np.std(waves[::20], ddof=1) / math.sqrt(10) / 1.05
    assert found.half_width is not None
    assert found.half_width >= of_batches - 1e-12


def test_times_that_follow_each_other_are_known_less_well() -> None:
    """The correlation is found, and the interval is wider than the naive one by about sqrt((1 + r) / (1 - r))."""
    times = 1 + 0.01 * correlated_noise(np.random.default_rng(5), (2000,), 0.6)
    found = precision_of(times)
    naive = 1.96 * 0.01 / math.sqrt(2000)
    assert found.lag1 == pytest.approx(0.6, abs=0.06)
    assert found.half_width is not None
    assert found.half_width > 1.6 * naive


@pytest.mark.parametrize(("times", "unknown"), [([1.0], 3), ([1.0, 1.1], 2)])
def test_too_few_samples_have_no_interval(times: list[float], unknown: int) -> None:
    """Null rather than a guess."""
    found = precision_of(times)
    assert [found.half_width, found.lag1, found.spread].count(None) == unknown


@given(st.lists(st.floats(0.5, 2.0), min_size=3, max_size=80), st.floats(0.001, 1000))
def test_the_relative_half_width_does_not_depend_on_the_unit(times: list[float], scale: float) -> None:
    """Milliseconds or hours, the answer is the same."""
    one, other = precision_of(times), precision_of([scale * time for time in times])
    assert one.half_width == pytest.approx(other.half_width, rel=1e-6, abs=1e-9)


def look(watch: StopWatch, seconds: list[float], elapsed_s: float) -> None:
    """Look as a launch does."""
    watch.look(len(seconds), precision_of(seconds).half_width, elapsed_s)


def test_constant_times_stop_at_the_first_look() -> None:
    """Not before, though nothing varies."""
    watch = StopWatch(RULE)
    look(watch, [0.1] * 9, 5.0)
    assert watch.reason is None
    look(watch, [0.1] * 10, 5.0)
    assert watch.reason == "precision"


def test_the_first_look_waits_for_the_least_time() -> None:
    """A fast model takes many more samples than the least number."""
    watch = StopWatch(RULE)
    look(watch, [0.01] * 20, 0.2)
    assert watch.reason is None
    assert watch.samples_to_next_look(20, 0.2, 0.01) == 80


def test_looks_come_at_one_and_a_half_times_the_samples_before() -> None:
    """Looking at every sample would stop on a lucky one."""
    noisy = [0.1, 0.2] * 50
    watch = StopWatch(RULE)
    look(watch, noisy[:10], 1.5)
    assert watch.samples_to_next_look(10, 1.5, 0.15) == 5
    look(watch, [0.15] * 14, 2.1)
    assert watch.reason is None
    look(watch, [0.15] * 15, 2.25)
    assert watch.reason == "precision"


def test_noise_that_stays_ends_at_the_cap() -> None:
    """In samples or in seconds, and never because the noise settled."""
    noisy = [0.1, 0.2] * 200
    watch, count = StopWatch(RULE), 0
    while watch.reason is None:
        count += watch.samples_to_next_look(count, 0.05 * count, 0.05)
        look(watch, noisy[:count], 0.05 * count)
    assert (watch.reason, count) == ("cap", 160)
    late = StopWatch(RULE)
    look(late, noisy[:5], 20.0)
    assert late.reason == "cap"


def test_the_cap_in_samples_waits_for_the_least_time() -> None:
    """A nano model makes thousands of updates in a second."""
    watch = StopWatch(replace(RULE, half_width=0.0))
    look(watch, [0.001, 0.002] * 150, 0.45)
    assert watch.reason is None
    look(watch, [0.001, 0.002] * 400, 1.2)
    assert watch.reason == "cap"
