"""Updates of A micro-steps take t_update + A x t_micro, and long ones are sampled by their micro-steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.measure.update_times import (
    UpdateLaw,
    UpdateTime,
    is_law_met,
    law_of,
    precision_of_updates,
    samples_of,
)
from bench.statistics.stopping import precision_of


def planted(accumulation_steps: int, update_s: float = 0.5, micro_step_s: float = 0.25) -> UpdateTime:
    """Make an update that keeps the law exactly: first, last and optimizer step hold what is not A x t_micro."""
    first, last = micro_step_s + 0.2 * update_s, micro_step_s + 0.3 * update_s
    inner = (micro_step_s,) * (accumulation_steps - 2)
    return UpdateTime(accumulation_steps * micro_step_s + update_s, (first, *inner, last))


def test_whole_updates_are_their_own_samples() -> None:
    """Without micro-steps there is no law."""
    times = [UpdateTime(1.0), UpdateTime(1.5)]
    assert samples_of(times) == [1.0, 1.5]
    assert law_of(times) is None
    assert precision_of_updates(times * 5, 1) == precision_of([1.0, 1.5] * 5)


@pytest.mark.parametrize("of_medians", [False, True])
@given(st.integers(4, 60), st.integers(1, 1000), st.floats(0.001, 100), st.floats(0.001, 100))
def test_the_law_is_found_from_short_windows_and_foretells_long_ones(
    of_medians: bool, short: int, long: int, update_s: float, micro_step_s: float
) -> None:
    """What was planted comes back, whatever the window it was measured on."""
    law = law_of([planted(short, update_s, micro_step_s)] * 3, of_medians=of_medians)
    assert law is not None
    assert law.micro_step_s == pytest.approx(micro_step_s)
    assert law.seconds(long) == pytest.approx(update_s + long * micro_step_s, rel=1e-6)


def test_samples_are_the_micro_steps_between_first_and_last() -> None:
    """The first starts the window and the last synchronises: they stand apart."""
    time = UpdateTime(10.0, (2.0, 1.0, 1.25, 3.0))
    assert samples_of([time]) == [1.0, 1.25]
    assert time.rest == 7.75


def test_whole_updates_must_agree_with_the_law_to_one_per_cent() -> None:
    """On average, since single updates have noise."""
    law = UpdateLaw(1.0, 0.25)
    assert is_law_met(law, [UpdateTime(10.9), UpdateTime(11.1)], 40)
    assert is_law_met(law, [UpdateTime(11.1)], 40)
    assert not is_law_met(law, [UpdateTime(11.2)], 40)
    assert not is_law_met(law, [UpdateTime(10.85)], 40)


def test_many_micro_steps_know_an_update_better_than_few_whole_ones() -> None:
    """Planted noise: the interval holds the truth, and is narrower than that of the whole updates."""
    generator = np.random.default_rng(11)
    held, width, whole_width = 0, 0.0, 0.0
    for _ in range(200):
        times = []
        for _ in range(3):
            micro_steps = 0.1 * (1 + 0.02 * generator.standard_normal(32))
            times.append(UpdateTime(float(micro_steps.sum()) + 0.05, tuple(micro_steps)))
        found = precision_of_updates(times, 32)
        whole = precision_of([time.seconds for time in times])
        assert found.half_width is not None
        assert whole.half_width is not None
        held += abs(found.mean_s - 3.25) <= found.half_width * found.mean_s
        width += found.half_width
        whole_width += whole.half_width
    assert held >= 190
    assert width < 0.8 * whole_width


def test_two_whole_updates_have_no_interval_whatever_their_micro_steps_say() -> None:
    """What stands apart in each update has to be known too."""
    assert precision_of_updates([planted(32)] * 2, 32).half_width is None
    assert precision_of_updates([planted(32)] * 3, 32).half_width == pytest.approx(0.0)
