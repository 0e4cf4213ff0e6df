"""What measuring costs: tokens/s through `bench` against a bare loop on the same work, in interleaved pairs.

Each side of a pair runs in fresh processes, in turns first and second. Goals: on a small model (about 40 ms a
micro-step) a ratio of at least 0.99, lower end of the interval at least 0.98; on a nano model (about 1 ms), where every
microsecond of ours shows, at least 0.95. Run it on a quiet machine.

Run: python -m benchmarks.overhead [--pairs 6] [--threads 1]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bench.measure.intervals import Interval, log_ratios, pair_interval


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


WORKS = (
    Work("small", "gpt2-mini", 128, 1, 4, warmup_updates=5, updates=25, goal=0.99, goal_low=0.98),
    Work("nano", "gpt2-nano", 32, 1, 16, warmup_updates=20, updates=250, goal=0.95, goal_low=0.95),
)


def through_bench(work: Work, threads: int) -> float:
    """Run one trial by the command and read its row [valid tokens/s]."""
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
        "--cpu-threads-per-rank": threads,
    }
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        arguments = [str(part) for option in options.items() for part in option]
        _run("bench.cli", "run", *arguments, "--out", str(out))
        row = pd.read_parquet(out / "results.parquet").iloc[-1]
    if row["outcome"] != "ok":
        raise SystemExit(f"the trial ended {row['outcome']}: {row['reason']}")
    return float(row["valid_tokens_per_s"])


def bare(work: Work, threads: int) -> float:
    """Run the bare loop [tokens/s]."""
    numbers = (work.seq_len, work.micro_batch_size, work.accumulation_steps, work.warmup_updates, work.updates, threads)
    answer = _run("benchmarks.bare_loop", work.model, *map(str, numbers))
    return float(json.loads(answer.splitlines()[-1])["tokens_per_s"])


def _run(module: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return done.stdout


def measure(work: Work, pairs: int, threads: int) -> Interval:
    """Run pairs, the two sides in turns first, and give the interval of bench / bare."""
    sides = {"bench": through_bench, "bare": bare}
    rates: dict[str, list[float]] = {"bench": [], "bare": []}
    for pair in range(pairs):
        for side in ("bench", "bare") if pair % 2 == 0 else ("bare", "bench"):
            rates[side].append(sides[side](work, threads))
        print(
            f"  pair {pair + 1}: bench {rates['bench'][-1]:,.0f}, bare {rates['bare'][-1]:,.0f} tokens/s, "
            f"ratio {rates['bench'][-1] / rates['bare'][-1]:.4f}",
            flush=True,
        )
    return pair_interval(log_ratios(rates["bare"], rates["bench"]))


def main() -> None:
    """Print the ratios; exit 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=[work.name for work in WORKS])
    options = parser.parse_args()
    is_met = True
    for work in WORKS:
        if options.only not in (None, work.name):
            continue
        print(
            f"{work.name}: {work.model}, {work.micro_batch_size} x {work.seq_len} tokens, A = {work.accumulation_steps}"
        )
        found = measure(work, options.pairs, options.threads)
        met = found.ratio >= work.goal and found.ratio_low >= work.goal_low
        is_met = is_met and met
        print(
            f"{work.name}: bench / bare = {found.ratio:.4f} [{found.ratio_low:.4f}, {found.ratio_high:.4f}], "
            f"{found.blocks} pairs; goal >= {work.goal} and lower end >= {work.goal_low}: {'met' if met else 'MISSED'}"
        )
    raise SystemExit(0 if is_met else 1)


if __name__ == "__main__":
    main()
