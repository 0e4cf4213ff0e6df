"""Every doubt raises exactly its own flag, and a clean launch none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from bench.statistics.health import Samples, flags_of, has_drift, is_host_busy, spike_share, spikes

STEADY = tuple(1 + 0.001 * np.random.default_rng(7).standard_normal(120))
CLEAN = Samples(
    seconds=STEADY,
    segments=((1.0, 1.0005), (0.25, 0.2501)),
    slowest_rank_at_least_s=10.1,
    fastest_rank_at_most_s=10.0,
    timed_s=120.0,
    data_wait_s=1.0,
    alloc_retries=0,
    memory_pass_bytes=1000,
    timed_bytes=1000,
)


def test_a_clean_launch_has_no_flag() -> None:
    """Small differences are not doubts."""
    assert flags_of(CLEAN) == []


@pytest.mark.parametrize(
    ("flag", "plant"),
    [
        ("few_updates", lambda: replace(CLEAN, seconds=STEADY[:9])),
        ("drift", lambda: replace(CLEAN, seconds=tuple(np.array(STEADY) * np.linspace(1, 1.02, 120)))),
        ("spiky", lambda: replace(CLEAN, seconds=(*STEADY[:60], 1.1, *STEADY[60:]))),
        ("clock_mismatch", lambda: replace(CLEAN, segments=((1.0, 1.0005), (0.25, 0.2516)))),
        ("straggler", lambda: replace(CLEAN, slowest_rank_at_least_s=10.21)),
        ("data_bound", lambda: replace(CLEAN, data_wait_s=6.1)),
        ("amp_skips", lambda: replace(CLEAN, updates_skipped=1)),
        ("alloc_retries", lambda: replace(CLEAN, alloc_retries=1)),
        ("mem_unstable", lambda: replace(CLEAN, timed_bytes=1001)),
        ("not_steady", lambda: replace(CLEAN, marked=("not_steady",))),
        ("precision_not_met", lambda: replace(CLEAN, marked=("precision_not_met",))),
    ],
)
def test_a_planted_fault_raises_exactly_its_flag(flag: str, plant: Callable[[], Samples]) -> None:
    """One fault, one flag."""
    assert flags_of(plant()) == [flag]


def test_what_is_not_known_raises_no_flag() -> None:
    """A CPU has no allocator counters and one rank has no straggler."""
    unknown = replace(CLEAN, alloc_retries=None, memory_pass_bytes=None, timed_bytes=None)
    assert flags_of(unknown) == []
    assert flags_of(replace(unknown, slowest_rank_at_least_s=None, fastest_rank_at_most_s=None)) == []


def test_drift_needs_thirty_samples_and_more_than_half_a_percent() -> None:
    """A third of fewer samples is a handful."""
    ramp = np.linspace(1, 1.05, 120)
    assert has_drift(ramp)
    assert not has_drift(ramp[:29])
    assert not has_drift(np.linspace(1, 1.006, 120))


def test_a_spike_is_marked_where_it_is() -> None:
    """Two per cent above the median of quiet times is one; a slow phase of half the updates is not."""
    times = np.ones(50)
    times[20] = 1.03
    assert np.flatnonzero(spikes(times)).tolist() == [20]
    assert spike_share(times) == pytest.approx(1.03 / 50.03)
    assert not spikes(np.repeat([1.0, 1.5], 25)).any()
    assert spike_share([]) == 0.0


@pytest.mark.parametrize(
    ("others", "steal", "waited", "throttled", "is_busy"),
    [
        (0.0, 0.0, 0.0, 0.0, False),
        (0.5, 0.0, 0.3, 0.0, True),
        (0.5, 0.0, 0.0, 0.0, False),  # cores enough for all
        (0.01, 0.0, 0.3, 0.0, False),  # more threads than cores wait for each other
        (0.5, 0.0, None, 0.0, True),
        (None, 0.03, None, None, True),
        (0.0, 0.0, 0.0, 0.03, True),
        (None, None, None, None, False),
        (None, None, 0.9, None, False),
    ],
)
def test_host_is_busy_where_others_are_in_the_way_or_time_is_taken(
    others: float | None, steal: float | None, waited: float | None, throttled: float | None, is_busy: bool
) -> None:
    """What is not known raises no doubt."""
    assert is_host_busy(others, steal, waited, throttled) is is_busy
