"""What measuring costs: tokens/s through `bench` against a bare loop on the same work, in interleaved pairs.

Each side of a pair runs in fresh processes, in turns first and second, on one thread. Both train the same updates and
must reach the same losses. Goals: on a small model (about 40 ms a micro-step) at least 0.99, lower end of the interval
at least 0.98; on a nano model (about 1 ms), where every microsecond of ours shows, at least 0.95.

Launches differ by more than that on a machine that others use, so the same ratio is given in two more ways: by the
processor's time of the same launches, and of both loops in one process that take turns (`alternating`).

Run: python -m benchmarks.overhead [--pairs 6] [--only small] [--quick]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bench.measure.intervals import log_ratios, pair_interval
from benchmarks.figures import Figure, ratio_figure
from benchmarks.harness import parser, run, say

UPDATES_BEFORE = 4
"""Updates of a launch before its warm-up: the first one, and those of the memory pass."""
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
class Side:
    """State one run of the work."""

    timed_s: float
    timed_cpu_s: float
    losses: list[float]


WORKS = (
    Work("small", "gpt2-mini", 128, 1, 4, warmup_updates=5, updates=25, goal=0.99, goal_low=0.98, turns=(20, 4, 1)),
    Work("nano", "gpt2-nano", 32, 1, 16, warmup_updates=20, updates=250, goal=0.95, goal_low=0.95, turns=(30, 10, 1)),
)


def through_bench(work: Work) -> Side:
    """Run one trial by the command and read its tables."""
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
        updates = pd.read_parquet(out / "updates.parquet").sort_values("update")
    if row["outcome"] != "ok":
        raise SystemExit(f"the trial ended {row['outcome']}: {row['reason']}")
    return Side(float(row["timed_s"]), float(row["timed_cpu_s"]), updates["train_loss"].tolist())


def bare(work: Work) -> Side:
    """Run the bare loop over the same updates."""
    answer = _run("benchmarks.bare_loop", *work.shape, str(UPDATES_BEFORE + work.warmup_updates), str(work.updates))
    return Side(**json.loads(answer.splitlines()[-1]))


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
    """Run pairs, the two sides in turns first, and give both ratios."""
    sides = {"bench": through_bench, "bare": bare}
    ran: dict[str, list[Side]] = {"bench": [], "bare": []}
    worst_loss = 0.0
    for pair in range(pairs):
        for side in ("bench", "bare") if pair % 2 == 0 else ("bare", "bench"):
            ran[side].append(sides[side](work))
        ours, theirs = ran["bench"][-1], ran["bare"][-1]
        worst_loss = max(worst_loss, loss_difference(ours.losses, theirs.losses))
        say(
            f"  {work.name} {pair + 1} of {pairs}: bench {ours.timed_s:.2f} s, bare {theirs.timed_s:.2f} s; on the "
            f"processor {ours.timed_cpu_s:.2f} s and {theirs.timed_cpu_s:.2f} s"
        )
    micro_step_ms = 1e3 * np.median([side.timed_s for side in ran["bare"]]) / work.updates / work.accumulation_steps
    names = {
        "timed_s": f"{work.name}: tokens/s, bench / bare loop ({micro_step_ms:.1f} ms a micro-step)",
        "timed_cpu_s": f"{work.name}: the same by the processor's time",
    }
    for clock, what in names.items():
        rates = {side: [1 / getattr(each, clock) for each in found] for side, found in ran.items()}
        found = pair_interval(log_ratios(rates["bare"], rates["bench"]))
        yield ratio_figure(what, found, work.goal, work.goal_low, f"{found.blocks} pairs")
    what = f"{work.name}: most that the losses of {len(ran['bare'][0].losses)} updates differ by"
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
