"""The warm-up ends when update times are level, the allocator is quiet and the device has worked long enough."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.statistics.lengths import LENGTHS
from bench.statistics.steady import SteadyState, WarmupRule

RULE = WarmupRule(window=10, tolerance=0.005, device_s=3.0)


def feed(rule: WarmupRule, seconds: Iterable[float], allocator: Iterable[object] | None = None) -> SteadyState:
    """Feed samples until the state changes."""
    steady = SteadyState(rule)
    counters = iter(allocator) if allocator is not None else None
    for sample in seconds:
        steady.add(sample, next(counters) if counters is not None else None)  # type: ignore[arg-type]
        if steady.state != "warming":
            break
    return steady


def test_level_update_times_are_steady_after_the_dropped_ones_and_two_windows() -> None:
    """Five dropped and twice ten are the least there can be."""
    steady = feed(RULE, [0.2] * 100)
    assert (steady.state, steady.samples) == ("steady", 25)


def test_time_that_is_up_before_two_whole_windows_is_judged_by_what_there_is() -> None:
    """Level samples are steady; a step between the halves is not, and fewer than three in each say nothing."""
    assert feed(RULE, [2.0] * 100).state == "steady"
    assert feed(RULE, [2.0] * 100).samples == 15
    assert feed(RULE, [2.0] * 10 + [1.9] * 100).state == "not_steady"
    assert feed(RULE, [3.0] * 100).state == "not_steady"
    assert feed(RULE, [2.0] * 100, range(100)).state == "not_steady"


def test_time_between_samples_counts() -> None:
    """Micro-steps of 10 ms beside an optimizer step: the cap is one on the whole, and so is the least time."""
    level, rising = SteadyState(RULE), SteadyState(RULE)
    while level.state == "warming":
        level.add(0.01, whole_s=1.0)
    while rising.state == "warming":
        rising.add(0.01 * 1.1**rising.samples, whole_s=1.0)
    assert (level.state, level.samples, level.device_s) == ("steady", 25, 25.0)
    assert (rising.state, rising.samples, rising.device_s) == ("not_steady", 30, 30.0)
    assert level.expected_s() == pytest.approx(1.0)


def test_the_first_five_updates_never_enter_a_window() -> None:
    """However slow they are."""
    steady = feed(RULE, [3.0] * 3 + [0.2] * 100)
    assert (steady.state, steady.samples) == ("steady", 25)


@pytest.mark.parametrize(("step", "samples"), [(1.004, 25), (1.006, 35)])
def test_medians_of_the_two_windows_must_agree_to_half_a_percent(step: float, samples: int) -> None:
    """A step of 0.6 % between the windows waits until both lie behind it."""
    assert feed(RULE, [0.2 * step] * 17 + [0.2] * 100).samples == samples


def test_a_spike_in_the_windows_is_waited_out() -> None:
    """A sample of more than 1.5 medians; tests come every five samples, so it leaves the windows at 40."""
    times = [0.2] * 100
    times[18] = 0.31
    assert feed(RULE, times).samples == 40
    times[18] = 0.29
    assert feed(RULE, times).samples == 25


def test_an_allocator_that_still_works_is_waited_for() -> None:
    """Counters that change within the windows mean that memory is still being found."""
    counters = [0] * 12 + [1] * 100
    assert feed(RULE, [0.2] * 100, counters).samples == 35
    assert feed(RULE, [0.2] * 100, [0] * 100).samples == 25


def test_the_device_must_have_worked_for_the_least_time() -> None:
    """Fast updates need more of them."""
    steady = feed(RULE, [1 / 64] * 1000)
    assert (steady.state, steady.samples, steady.device_s) == ("steady", 195, 195 / 64)


def test_update_times_that_never_settle_end_at_the_cap_as_not_steady() -> None:
    """200 updates, and the figure is kept."""
    falling = [0.05 * 0.99**index for index in range(1000)]
    steady = feed(replace(RULE, device_s=0.0), falling)
    assert (steady.state, steady.samples) == ("not_steady", 200)


def test_the_cap_in_updates_waits_for_the_least_time() -> None:
    """Two hundred updates of a small model are over before the device is warm."""
    steady = feed(RULE, [0.01 if index % 40 else 0.1 for index in range(2000)])
    assert steady.state == "not_steady"
    assert steady.samples == 245
    assert steady.device_s >= 3.0


def test_the_cap_in_seconds_ends_the_warm_up_at_once() -> None:
    """Also before the first test is due."""
    steady = feed(RULE, [2.0 + 0.1 * index for index in range(100)])
    assert (steady.state, steady.samples) == ("not_steady", 12)


@given(st.lists(st.floats(1e-4, 5.0), min_size=1, max_size=300), st.sampled_from(sorted(LENGTHS)))
def test_the_state_changes_once_and_only_where_announced(times: list[float], preset: str) -> None:
    """Between two tests nothing changes unless the time runs out, and every warm-up ends."""
    rule = LENGTHS[preset].warmup
    steady = SteadyState(rule)
    announced = steady.samples_to_next_test()
    for seconds in times:
        before = steady.state
        steady.add(seconds)
        announced -= 1
        if steady.state != before:
            assert before == "warming"
            assert announced == 0 or steady.device_s >= rule.device_s_at_most
        if announced == 0:
            announced = steady.samples_to_next_test()
    if steady.device_s >= rule.device_s_at_most:
        assert steady.state != "warming"
