"""What measuring costs: tokens/s through `bench` against a bare loop on the same work, in interleaved pairs.

Both sides of a pair are fresh processes on one thread that share one core, so the kernel lets them take turns every few
milliseconds and whatever others do to the machine meets both alike. Compared is the processor's time of an update, over
the timed part of the launch: on a core of its own that is the time on the clock. (Launches one after the other were
tried first: on a machine that others use too, two launches of the same loop differ by tens of per cent.) Both train the
same updates and must reach the same losses. Goals: on a small model (about 40 ms a micro-step) at least 0.99, lower end
of the interval at least 0.98; on a nano model (about 1 ms), where every microsecond of ours shows, at least 0.95.

A wait off the processor would not show in that, so both loops also take turns in one process, by the clock as well
(`alternating`).

Run: python -m benchmarks.overhead [--pairs 6] [--only small] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bench.statistics.intervals import log_ratios, pair_interval
from benchmarks.figures import Figure, ratio_figure
from benchmarks.harness import parser, run, say

UPDATES_BEFORE = 4
"""Updates of a launch before its warm-up: the first one, and those of the memory pass."""
MOST_UPDATES = 6000
"""Of the bare loop, which trains for as long as the launch beside it."""
LOSS_TOLERANCE = 1e-4
"""Relative; the sums of the two sides round otherwise, and training carries that on."""


@dataclass(frozen=True)
class Work:
    """State what both sides do, and what is asked of their ratio."""

    name: str
    model: str
    seq_len: int
    micro_batch_size: int
    accumulation_steps: int
    warmup_updates: int
    updates: int
    goal: float
    """Least ratio."""
    goal_low: float
    """Least lower end of the ratio's 95 % interval."""
    turns: tuple[int, int, int]
    """Blocks, turns of each and updates of a turn, where both loops take turns."""

    @property
    def shape(self) -> list[str]:
        """Give model and sizes as arguments."""
        return [self.model, *map(str, (self.seq_len, self.micro_batch_size, self.accumulation_steps))]


@dataclass(frozen=True)
class Launch:
    """State what one launch through `bench` did."""

    from_s: float
    """Edges of its timed part on the monotonic clock."""
    to_s: float
    update_cpu_s: float
    """The processor's time of an update of the timed part."""
    losses: list[float]


@dataclass(frozen=True)
class Bare:
    """State what the bare loop did beside a launch."""

    ends: list[tuple[float, float]]
    """End of each update: on the monotonic clock, by the processor's time of the process [s]."""
    losses: list[float]

    def update_cpu_s(self, from_s: float, to_s: float) -> float:
        """Give the processor's time of an update between two moments.

        Raises:
            ValueError: The loop did not run from the one to the other.
        """
        clock, processor = np.array(self.ends).T
        if not clock[0] <= from_s < to_s <= clock[-1]:
            raise ValueError("the bare loop did not run throughout the timed part of the launch beside it")
        updates = np.interp([from_s, to_s], clock, np.arange(len(clock)))
        return float(np.diff(np.interp([from_s, to_s], clock, processor))[0] / np.diff(updates)[0])


WORKS = (
    Work("small", "gpt2-mini", 128, 1, 4, warmup_updates=5, updates=25, goal=0.99, goal_low=0.98, turns=(20, 4, 1)),
    Work("nano", "gpt2-nano", 32, 1, 16, warmup_updates=20, updates=250, goal=0.95, goal_low=0.95, turns=(30, 10, 1)),
)


def through_bench(work: Work) -> Launch:
    """Run one trial by the command and read what it left."""
    options = {
        "--model": work.model,
        "--seq-len": work.seq_len,
        "--micro-batch-size": work.micro_batch_size,
        "--accumulation-steps": work.accumulation_steps,
        "--warmup-updates": work.warmup_updates,
        "--updates": work.updates,
        "--quality-updates": 0,
        "--rows": "packed",
        "--device": "cpu",
        "--cpu-threads-per-rank": 1,
    }
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        arguments = [str(part) for option in options.items() for part in option]
        _run("bench.cli", "run", *arguments, "--out", str(out))
        row = pd.read_parquet(out / "results.parquet").iloc[-1]
        if row["outcome"] != "ok":
            raise SystemExit(f"the trial ended {row['outcome']}: {row['reason']}")
        updates = pd.read_parquet(out / "updates.parquet").sort_values("update")
        (left,) = out.glob(f"logs/{row['trial_id']}-*/rank-0.json")
        timing = json.loads(left.read_text())["timing"]
    update_cpu_s = float(row["timed_cpu_s"]) / work.updates
    return Launch(timing["timed_from_s"], timing["timed_to_s"], update_cpu_s, updates["train_loss"].dropna().tolist())


def side_by_side(work: Work) -> tuple[Launch, Bare]:
    """Run both on one core, the bare loop from before the launch to after it."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        command = [sys.executable, "-m", "benchmarks.bare_loop", *work.shape, str(MOST_UPDATES)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as loop:
            try:
                assert loop.stdout is not None, "it is a pipe"
                loop.stdout.readline()
                launch = through_bench(work)
                answer, _ = loop.communicate("")
            finally:
                loop.kill()
    finally:
        os.sched_setaffinity(0, cores)
    return launch, Bare(**json.loads(answer))


def in_turns(work: Work) -> Iterator[Figure]:
    """Let both loops take turns in one process."""
    answer = _run("benchmarks.alternating", *work.shape, str(work.warmup_updates), *map(str, work.turns))
    for clock, log_ratios_of_blocks in json.loads(answer.splitlines()[-1]).items():
        found = pair_interval(log_ratios_of_blocks)
        what = f"{work.name}: the same in turns in one process, by the {clock}"
        yield ratio_figure(what, found, work.goal, work.goal_low, f"{found.blocks} blocks")


def _run(module: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return done.stdout


def measure(work: Work, pairs: int) -> Iterator[Figure]:
    """Run pairs side by side, then both loops in turns."""
    ours, theirs, worst_loss = [], [], 0.0
    for pair in range(pairs):
        launch, bare = side_by_side(work)
        ours.append(launch.update_cpu_s)
        theirs.append(bare.update_cpu_s(launch.from_s, launch.to_s))
        worst_loss = max(worst_loss, loss_difference(launch.losses, bare.losses[: len(launch.losses)]))
        say(
            f"  {work.name} {pair + 1} of {pairs}: an update takes {1e3 * ours[-1]:.2f} ms through bench, "
            f"{1e3 * theirs[-1]:.2f} ms in the bare loop beside it: {theirs[-1] / ours[-1]:.4f}"
        )
    micro_step_ms = 1e3 * np.median(theirs) / work.accumulation_steps
    found = pair_interval(log_ratios(ours, theirs))
    what = f"{work.name}: tokens/s, bench / bare loop ({micro_step_ms:.1f} ms a micro-step)"
    yield ratio_figure(what, found, work.goal, work.goal_low, f"{found.blocks} pairs")
    what = f"{work.name}: most that the losses of {len(launch.losses)} updates differ by"
    yield Figure("", what, worst_loss, at_most=LOSS_TOLERANCE, unit="error")
    yield from in_turns(work)


def loss_difference(ours: list[float], theirs: list[float]) -> float:
    """Give the largest relative difference of two loss curves; infinite when they are of unequal length."""
    if len(ours) != len(theirs):
        return float("inf")
    return float(np.max(np.abs(np.array(ours) / np.array(theirs) - 1)))


def figures(options: argparse.Namespace) -> Iterator[Figure]:
    """Measure what was asked for."""
    for work in WORKS:
        if options.only in (None, work.name):
            yield from measure(work, options.pairs or (3 if options.quick else 6))


def main() -> None:
    """Print the ratios."""
    options_of = parser("benchmarks.overhead", __doc__)
    options_of.add_argument("--pairs", type=int, help="pairs of each model  [default: 6, quick 3]")
    options_of.add_argument("--only", choices=[work.name for work in WORKS])
    options = options_of.parse_args()
    run("overhead", figures(options), options)


if __name__ == "__main__":
    main()
