"""The pace of a launch: how many updates come next, until what was asked for is reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.measure.update_times import UpdateTime
from bench.rank.pace import SEGMENT_S_AT_MOST, WHOLE_UPDATES, Pace
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.fields import MeasureSpec
from bench.sweep.file import load_sweep
from bench.sweep.trial import Trial

Source = Callable[[], UpdateTime]


def preset(name: str) -> MeasureSpec:
    """Ask for a preset."""
    return MeasureSpec.model_validate({"preset": name})


def steady(seconds: float) -> Source:
    """Make updates that all take the same time."""
    return lambda: UpdateTime(seconds)


def noisy(seconds: float, sd: float) -> Source:
    """Make updates with independent noise, seeded."""
    generator = np.random.default_rng(3)
    return lambda: UpdateTime(seconds * (1 + sd * float(generator.standard_normal())))


def by_micro_steps(micro_steps: int, micro_step_s: float, update_s: float) -> Source:
    """Make long updates that keep the law."""
    steps = (micro_step_s,) * micro_steps
    return lambda: UpdateTime(micro_steps * micro_step_s + update_s, steps)


def warm_up(pace: Pace, source: Source, counters: Iterator[int] | None = None) -> list[int]:
    """Run the warm-up; the sizes of its parts."""
    sizes, before = [], 0
    while (due := pace.warmup_due()) > 0:
        after = next(counters) if counters else 0
        pace.warmed([source() for _ in range(due)], before, after)
        before = after
        sizes.append(due)
    return sizes


def time_it(pace: Pace, source: Source) -> list[list[UpdateTime]]:
    """Run the timed part; its segments."""
    segments = []
    while (due := pace.timed_due()) > 0:
        segments.append([source() for _ in range(due)])
        pace.timed(segments[-1], sum(time.seconds for time in segments[-1]))
        assert len(segments) < 1000
    return segments


def test_a_fixed_length_is_run_as_asked_in_one_segment() -> None:
    """No rule, no target, and the reason says so."""
    pace = Pace(MeasureSpec.model_validate({"warmup_updates": 4, "updates": 7}), 2, 0.1)
    assert warm_up(pace, steady(0.1)) == [4]
    assert [len(segment) for segment in time_it(pace, steady(0.1))] == [7]
    assert (pace.stop_reason, pace.target_half_width, pace.flags) == ("fixed", None, ())
    assert pace.precision.half_width == pytest.approx(0.0)


def test_a_fixed_length_may_have_no_warm_up() -> None:
    """Zero is a length."""
    assert warm_up(Pace(MeasureSpec.model_validate({"warmup_updates": 0, "updates": 7}), 2, 0.1), steady(0.1)) == []


def test_quick_warms_up_and_measures_for_a_second_each() -> None:
    """On a model of 20 ms an update whose times hardly vary."""
    pace = Pace(preset("quick"), 1, 0.02)
    assert sum(warm_up(pace, noisy(0.02, 0.01))) == pytest.approx(50, abs=5)
    updates = sum(len(segment) for segment in time_it(pace, noisy(0.02, 0.01)))
    assert updates == pytest.approx(50, abs=13)
    assert (pace.stop_reason, pace.target_half_width, pace.flags) == ("precision", 0.02, ())


def test_a_wrong_estimate_is_replaced_by_what_the_warm_up_took() -> None:
    """The memory pass is slowed by its witness, so the estimate before the warm-up may be far off."""
    pace = Pace(preset("quick"), 1, 0.9)
    assert sum(warm_up(pace, steady(0.01))) >= 100
    assert time_it(pace, steady(0.01))[0][0].seconds == 0.01


def test_noise_asks_for_more_updates_until_the_target_is_met() -> None:
    """Normal aims at 0.5 %."""
    pace = Pace(preset("normal"), 1, 0.1)
    warm_up(pace, noisy(0.1, 0.02))
    segments = time_it(pace, noisy(0.1, 0.02))
    assert pace.stop_reason == "precision"
    assert pace.precision.half_width is not None
    assert pace.precision.half_width <= 0.005
    assert 50 < sum(map(len, segments)) < 400


def test_noise_that_is_too_much_ends_at_the_cap_with_its_flag() -> None:
    """The figure is kept, and its half-width says what it is."""
    pace = Pace(preset("quick"), 1, 0.1)
    warm_up(pace, noisy(0.1, 0.4))
    time_it(pace, noisy(0.1, 0.4))
    assert pace.stop_reason == "cap"
    assert pace.flags == ("not_steady", "precision_not_met")


def test_an_allocator_at_work_prolongs_the_warm_up() -> None:
    """Counters that changed within a part count as changed at its end."""
    quiet, busy = Pace(preset("quick"), 1, 0.05), Pace(preset("quick"), 1, 0.05)
    changed_once = iter([1] + [1] * 100)
    assert sum(warm_up(quiet, steady(0.05))) == 25
    assert sum(warm_up(busy, steady(0.05), changed_once)) == 45


@settings(max_examples=50)
@given(st.floats(2e-3, 0.9), st.sampled_from(["quick", "normal", "strict"]))
def test_segments_are_long_enough_for_their_edges_and_end_in_time(seconds: float, name: str) -> None:
    """At least 250 ms each; the whole keeps to the preset's least and most."""
    pace = Pace(preset(name), 1, seconds)
    warm_up(pace, steady(seconds))
    segments = time_it(pace, steady(seconds))
    for segment in segments:
        assert sum(time.seconds for time in segment) * (1 + 1e-9) >= 0.25
        assert sum(time.seconds for time in segment) <= SEGMENT_S_AT_MOST + seconds
    total = sum(time.seconds for segment in segments for time in segment)
    least = {"quick": 1.0, "normal": 5.0, "strict": 10.0}[name]
    most = {"quick": 5.0, "normal": 60.0, "strict": 300.0}[name]
    assert least <= total <= most + SEGMENT_S_AT_MOST


def test_long_updates_are_sampled_by_micro_steps_and_three_whole_ones_are_kept() -> None:
    """An update of 3.4 s of 32 micro-steps: the warm-up counts micro-steps, and so does the timed part."""
    pace = Pace(preset("normal"), 32, 3.4)
    assert pace.by_micro_steps
    assert not pace.is_shortened
    source = by_micro_steps(32, 0.1, 0.2)
    assert sum(warm_up(pace, source)) == 1
    assert sum(map(len, time_it(pace, source))) == WHOLE_UPDATES
    assert pace.precision.mean_s == pytest.approx(3.4)


@settings(max_examples=60)
@given(
    st.sampled_from(["quick", "normal", "strict"]),
    st.integers(4, 64),
    st.floats(0.02, 2.0),
    st.floats(0.0, 20.0),
    st.booleans(),
)
def test_cap_of_the_warm_up_counts_all_of_its_time(
    name: str, accumulation_steps: int, micro_step_s: float, update_s: float, is_level: bool
) -> None:
    """The optimizer's step and the outer micro-steps too; one update may be under way when the cap is reached."""
    whole_s = accumulation_steps * micro_step_s + update_s
    pace = Pace(preset(name), accumulation_steps, whole_s)
    noise = np.random.default_rng(3)

    def long() -> UpdateTime:
        spread = 0.0 if is_level else 0.5
        steps = tuple(micro_step_s * float(noise.uniform(1 - spread, 1 + spread)) for _ in range(pace.micro_steps))
        return UpdateTime(sum(steps) + update_s, steps if pace.by_micro_steps else ())

    spent_s, longest_s = 0.0, 0.0
    while (due := pace.warmup_due()) > 0:
        times = [long() for _ in range(due)]
        pace.warmed(times, 0, 0)
        spent_s += sum(time.seconds for time in times)
        longest_s = max(longest_s, *(time.seconds for time in times))
    cap_s = {"quick": 3.0, "normal": 30.0, "strict": 30.0}[name]
    slack_s = longest_s if is_level else longest_s + SEGMENT_S_AT_MOST  # what is due was foretold from other samples
    assert spent_s <= cap_s + slack_s + 1e-6
    assert spent_s >= {"quick": 1.0, "normal": 3.0, "strict": 3.0}[name] - 1e-6
    assert not is_level or pace.flags == () or spent_s >= cap_s


@pytest.mark.parametrize(("accumulation_steps", "update_s"), [(32, 0.9), (3, 5.0)])
def test_short_updates_and_few_micro_steps_are_sampled_whole(accumulation_steps: int, update_s: float) -> None:
    """Below a second whole updates do; below four micro-steps there is nothing between first and last."""
    assert not Pace(preset("normal"), accumulation_steps, update_s).by_micro_steps


def test_windows_are_shortened_where_three_whole_updates_would_not_fit() -> None:
    """An update of a minute: windows of a sixth, and longer ones to confirm the law."""
    pace = Pace(preset("normal"), 512, 60.0)
    assert pace.is_shortened
    assert (pace.micro_steps, pace.confirming_micro_steps) == (85, 170)
    source = by_micro_steps(85, 60.0 / 512, 0.0)
    warm_up(pace, source)
    time_it(pace, source)
    assert pace.precision.mean_s == pytest.approx(60.0)


def test_quickstart_is_near_two_minutes_where_bf16_is_emulated() -> None:
    """Two cores of 40,000 tokens/s in fp32 and 5,000 in bf16: all launches, what is before the warm-up included."""
    sweep = load_sweep(Path(__file__).parents[3] / "sweeps" / "quickstart.yaml")
    measure = sweep.spec.measure
    total_s = 0.0
    for trial in expand(sweep, MachineFacts("cpu", 0)):
        assert isinstance(trial, Trial)
        config = trial.config
        assert config.global_batch_size is not None
        assert config.accumulation_steps is not None
        rate = 5_000 if config.amp_mode == "bf16" else 40_000
        update_s = config.global_batch_size * config.seq_len / rate
        noise = noisy(update_s, 0.05)
        for _ in range(measure.rounds):
            pace = Pace(measure, config.accumulation_steps, update_s)
            updates = max(measure.quality_updates, 4) + sum(warm_up(pace, noise))
            segments = time_it(pace, noise)
            total_s += (updates + sum(map(len, segments))) * update_s
    assert total_s < 110.0, "what is left of two minutes is for proofs, starts and the plot"


def test_windows_are_never_shortened_below_four_micro_steps_nor_with_a_fixed_length() -> None:
    """Four leave two between the first and the last; a fixed length is what was asked for."""
    assert Pace(preset("quick"), 8, 1000.0).micro_steps == 4
    assert Pace(MeasureSpec.model_validate({"updates": 3}), 512, 60.0).micro_steps == 512
