"""How much launches of one configuration differ on this machine, and what that means for the number of rounds.

Runs one CPU configuration in fresh launches one after the other, then redoes the simulations of the statistics with the
figures found. Run it on a quiet machine.

Run: python -m benchmarks.launch_spread [--launches 20] [--preset normal] [--results FOLDER]
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from bench.measure.intervals import blocks_needed, layout_intervals
from bench.measure.verdict import judge
from benchmarks.simulate import Machine, layout

SWEEP = """\
# Question: how much do launches of one configuration differ?
format: 1
name: launch-spread
base:
  device: cpu
  model: {{preset: gpt2-tiny}}
  data: {{corpus: stdlib, rows: packed}}
  seq_len: 128
  global_batch_size: 16
axes:
  micro_batch_size: [4]
measure: {{preset: {preset}, rounds: {launches}, quality_updates: 0}}
"""

CONFIGURATIONS = 12
"""Trials of the sweep that is simulated."""


def run(folder: Path, launches: int, preset: str) -> None:
    """Run the launches into a folder."""
    file = folder / "launch-spread.yaml"
    file.write_text(SWEEP.format(preset=preset, launches=launches))
    command = [sys.executable, "-m", "bench.cli", "sweep", str(file), "--out", str(folder / "results"), "--no-plot"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def describe(rows: pd.DataFrame) -> Machine:
    """Print what the launches say, and give it as a machine to simulate."""
    rows = rows[rows["outcome"] == "ok"].sort_values("round")
    logs = np.log(rows["valid_tokens_per_s"].to_numpy())
    launch_sd = float(logs.std(ddof=1))
    neighbours = float(np.corrcoef(logs[:-1], logs[1:])[0, 1])
    within = rows["spread"] / np.sqrt(rows["updates_attempted"] * (1 - rows["lag1"]) / (1 + rows["lag1"]))
    print(f"{len(rows)} launches: {rows['valid_tokens_per_s'].mean():,.0f} valid tokens/s on average")
    print(f"spread of launches (sd of ln rate)          {launch_sd:.2%}")
    print(f"   of which updates within them explain     {math.sqrt(float((within**2).mean())):.2%}")
    print(f"correlation of a launch with the next       {neighbours:+.2f}")
    print(f"updates per launch, median                  {rows['updates_attempted'].median():.0f}")
    print(f"spread of updates within a launch, median   {rows['spread'].median():.2%}")
    print(f"lag-1 within a launch, median               {rows['lag1'].median():.2f}")
    print(f"half-width within a launch, median          {rows['half_width'].median():.2%}")
    print(f"flags                                       {rows['flags'].explode().value_counts().to_dict()}")
    own_sd = math.sqrt(max(0.0, launch_sd**2 - float((within**2).mean())))
    return Machine(
        own_sd,
        noise=float(rows["spread"].median()),
        lag1=float(rows["lag1"].median()),
        updates=int(rows["updates_attempted"].median()),
    )


def foresee(machine: Machine, sweeps: int = 400) -> None:
    """Simulate sweeps on such a machine: half-width, coverage and false alarms by the number of rounds."""
    print(f"\nsimulated: {CONFIGURATIONS} equal configurations on this machine, {sweeps} sweeps each")
    print("rounds  half-width of a pair  holds the truth  called faster or slower")
    generator = np.random.default_rng(20240229)
    pairs = [(0, other) for other in range(1, CONFIGURATIONS)]
    for rounds in (2, 3, 4, 6, 10):
        intervals = []
        wrong = 0
        for _ in range(sweeps):
            found = layout_intervals(layout(machine, generator, CONFIGURATIONS, rounds), pairs)
            intervals += found
            wrong += sum(verdict.word in {"faster", "slower"} for verdict in judge(found))
        width = np.mean([interval.half_width for interval in intervals])
        held = np.mean([interval.low <= 0 <= interval.high for interval in intervals])
        print(f"{rounds:6}  {width:20.2%}  {held:15.1%}  {wrong / len(intervals):22.2%}")
    needed = [blocks_needed(math.sqrt(2) * machine.launch_sd, width) for width in (0.005, 0.01, 0.02)]
    print(f"rounds that a pair alone needs for +-0.5 %, 1 %, 2 %: {needed}")


def main() -> None:
    """Run, or read what was run, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=20)
    parser.add_argument("--preset", choices=["quick", "normal", "strict"], default="normal")
    parser.add_argument("--results", type=Path, help="read a results.parquet instead of running")
    options = parser.parse_args()
    if options.results is not None:
        foresee(describe(pd.read_parquet(options.results)))
        return
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), options.launches, options.preset)
        foresee(describe(pd.read_parquet(Path(folder) / "results" / "results.parquet")))


if __name__ == "__main__":
    main()
