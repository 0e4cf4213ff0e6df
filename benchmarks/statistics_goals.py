"""Hold the statistics against planted truths: goals M1 to M4. Seeded; a minute or two on one core.

Run: python -m benchmarks.statistics_goals [--quick]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from bench.statistics.health import has_drift, spikes
from bench.statistics.intervals import layout_intervals, pair_interval
from bench.statistics.lengths import LENGTHS
from bench.statistics.steady import SteadyState, WarmupRule
from bench.statistics.stopping import StopRule, StopWatch, precision_of
from bench.statistics.verdict import judge
from benchmarks.figures import Figure, share_figure
from benchmarks.harness import parser, run
from benchmarks.simulate import TRANSIENTS, Machine, layout, paired, transient, update_times

SEED = 20240229


def words(machine: Machine, effect: float, blocks: int, compares: int, seed: int = SEED) -> dict[str, float]:
    """Give the share of each verdict over simulated compares of fresh interleaved launches."""
    differences = paired(machine, np.random.default_rng(seed), compares, blocks, effect)
    found = [judge([pair_interval(row)])[0].word for row in differences]
    return {word: found.count(word) / compares for word in ("faster", "slower", "same", "unclear")}


def false_alarms(compares: int) -> Iterator[Figure]:
    """M1: no difference, and a verdict that says there is one."""
    machine = Machine(launch_sd=0.006, drift=0.015)
    for blocks in (3, 6, 20):
        found = words(machine, 0.0, blocks, compares)
        what = f"A/A called faster or slower, {blocks} blocks, launch sd 0.6 %, drift 1.5 %"
        yield share_figure("M1", what, found["faster"] + found["slower"], compares, at_most=0.01)
    generator = np.random.default_rng(SEED)
    wrong = families = 0
    for _ in range(max(1, compares // 10)):
        verdicts = judge(layout_intervals(layout(machine, generator, 12, 3), [(0, other) for other in range(1, 12)]))
        wrong += sum(verdict.word in {"faster", "slower"} for verdict in verdicts)
        families += any(verdict.word in {"faster", "slower"} for verdict in verdicts)
    sweeps = max(1, compares // 10)
    yield Figure("M1", "the same in a sweep of 12 x 3 rounds, per pair", wrong / (11 * sweeps), at_most=0.01)
    yield share_figure("M1", "the same, any of the 11 pairs", families / sweeps, sweeps, at_most=0.05)


def power(compares: int) -> Iterator[Figure]:
    """M2: a difference that is there, and a verdict that finds it."""
    for drift_size, goals in ((0.0, (0.50, 0.85)), (0.015, (None, None))):
        for effect, launch_sd, goal in ((0.01, 0.003, goals[0]), (0.02, 0.006, goals[1]), (0.01, 0.006, None)):
            found = words(Machine(launch_sd=launch_sd, drift=drift_size), effect, 6, compares)
            what = f"+{effect:.0%} found, 6 blocks, launch sd {launch_sd:.1%}, drift {drift_size:.1%}"
            yield share_figure("M2", what, found["faster"], compares, at_least=goal)


def coverage(compares: int) -> Iterator[Figure]:
    """M3: how often the interval of a comparison holds the truth."""
    machine = Machine(launch_sd=0.006)
    for blocks in (3, 4, 6, 10, 14, 15, 20):
        differences = paired(machine, np.random.default_rng(SEED + blocks), compares, blocks, 0.01)
        intervals = [pair_interval(row) for row in differences]
        share = np.mean([interval.low <= np.log1p(0.01) <= interval.high for interval in intervals])
        what = f"interval holds the truth, {blocks} blocks, {intervals[0].method}"
        yield share_figure("M3", what, float(share), compares, 0.93, 0.97)
    for spread_ratio in (1.0, 4.0):
        generator = np.random.default_rng(SEED)
        hits, widths, alone = [], [], []
        for _ in range(compares // 4):
            rates = layout(machine, generator, 12, 3, spread_ratio)
            pairs = [(0, 5), (3, 8), (6, 11)]
            intervals = layout_intervals(rates, pairs)
            hits += [interval.low <= 0 <= interval.high for interval in intervals]
            widths += [interval.half_width for interval in intervals]
            alone += [pair_interval(rates[b] - rates[a]).half_width for a, b in pairs]
        what = f"the same in a sweep of 12 x 3, launch spreads 1 : {spread_ratio:g}"
        goal = 0.93 if spread_ratio == 1 else None
        yield share_figure("M3", what, float(np.mean(hits)), len(hits), at_least=goal)
        yield Figure("M3", "   its half-width / that of the pair alone", float(np.mean(widths) / np.mean(alone)))


def within_launch(launches: int) -> Iterator[Figure]:
    """M3: how often the interval that stops a launch holds the true mean."""
    for name, goal in (("quick", None), ("normal", 0.90), ("strict", 0.93)):
        for lag1 in (0.0, 0.3, 0.6, 0.8):
            held, used = stopped_launches(LENGTHS[name].stop, lag1, launches)
            what = f"within launch, {name}, lag-1 {lag1:g}, {used:.0f} updates used"
            yield share_figure("M3", what, held, launches, at_least=goal if lag1 == 0.6 else None)


def stopped_launches(rule: StopRule, lag1: float, launches: int, noise: float = 0.013) -> tuple[float, float]:
    """Stop launches of update times with a mean of 1 s by a rule; (share that holds the truth, mean updates)."""
    rule = replace(rule, seconds_at_least=0.0, seconds_at_most=float("inf"))
    generator = np.random.default_rng(SEED)
    held, used = 0, 0
    for _ in range(launches):
        times = update_times(generator, (rule.samples_at_most,), noise, lag1)
        watch, count = StopWatch(rule), 0
        while watch.reason is None:
            count += watch.samples_to_next_look(count, 0.0, 1.0)
            found = precision_of(times[:count])
            watch.look(count, found.half_width, 0.0)
        assert found.half_width is not None, "more than two samples"
        held += abs(found.mean_s - 1.0) <= found.half_width * found.mean_s
        used += count
    return held / launches, used / launches


def warm_up(launches: int) -> Iterator[Figure]:
    """M4: what is left of a transient in the 60 updates after the warm-up."""
    for name in (*TRANSIENTS, "heating 1.5 %, tau 60"):
        for preset in ("quick", "normal", "strict"):
            bias, used = warmed_up(LENGTHS[preset].warmup, name, launches)
            goal = 0.0015 if name in TRANSIENTS and preset != "quick" else None
            yield Figure("M4", f"|bias| after {name}, {preset}, {used:.0f} updates", abs(bias), at_most=goal)


def warmed_up(rule: WarmupRule, name: str, launches: int) -> tuple[float, float]:
    """Warm up by a rule, its seconds left aside; (mean relative error of the next 60 updates, mean updates used)."""
    rule = replace(rule, device_s=0.0, device_s_at_most=float("inf"))
    generator = np.random.default_rng(SEED)
    errors, used = [], []
    for _ in range(launches):
        count = rule.samples_at_most + 60
        times = update_times(generator, (count,), 0.005, 0.0, transient(name, count))
        steady = SteadyState(rule)
        for seconds in times:
            steady.add(float(seconds))
            if steady.state != "warming":
                break
        errors.append(times[steady.samples :][:60].mean() - 1)
        used.append(steady.samples)
    return float(np.mean(errors)), float(np.mean(used))


def drift(launches: int) -> Iterator[Figure]:
    """M4: drift and spikes within the timed part."""
    for noise, lag1 in ((0.005, 0.0), (0.005, 0.6), (0.02, 0.6)):
        times = update_times(np.random.default_rng(SEED), (launches, 120), noise, lag1)
        ramp = np.linspace(1.0, 1.02, 120)
        what = f"noise {noise:.1%}, lag-1 {lag1:g}"
        goal = 0.95 if noise == 0.005 and lag1 == 0 else None
        yield Figure("M4", f"drift of 2 % flagged, {what}", np.mean([has_drift(row * ramp) for row in times]), goal)
        yield Figure("M4", f"drift flagged where there is none, {what}", np.mean([has_drift(row) for row in times]))
    times = update_times(np.random.default_rng(SEED), (launches, 120), 0.01, 0.0)
    yield Figure("M4", "a spike found where there is none, noise 1 %", np.mean([spikes(row).any() for row in times]))
    times[:, 60] *= 1.1
    yield Figure("M4", "one update +10 % found, noise 1 %", np.mean([spikes(row)[60] for row in times]))


GOALS: tuple[tuple[Callable[[int], Iterator[Figure]], int], ...] = (
    (false_alarms, 1000),
    (power, 1000),
    (coverage, 1000),
    (within_launch, 1000),
    (warm_up, 200),
    (drift, 500),
)
"""Each simulation and how often it is repeated."""


def figures(options: argparse.Namespace) -> Iterator[Figure]:
    """Simulate everything."""
    for simulate, repetitions in GOALS:
        yield from simulate(repetitions // 10 if options.quick else repetitions)


def main() -> None:
    """Print every figure."""
    options = parser("benchmarks.statistics_goals", __doc__).parse_args()
    run("statistics_goals", figures(options), options)


if __name__ == "__main__":
    main()
