"""How much launches of one configuration differ on this machine, and what that means for the number of rounds.

Runs one CPU configuration in fresh launches one after the other; then simulates sweeps on a machine that behaves like
that, and says for each number of rounds how wide intervals are, how often they hold the truth, how often equal
configurations are called different and how often a difference that is there is found. Prints a block in Markdown too.
Run it on a quiet machine. With --launch-sd nothing is run: the machine is the one described.

Run: python -m benchmarks.launch_spread [--launches 20] [--preset normal] [--results FILE] [--quick]
     python -m benchmarks.launch_spread --launch-sd 0.006 [--lag1 0.6] [--noise 0.01] [--drift 0.015] [--updates 100]
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bench.statistics.intervals import blocks_needed, layout_intervals
from bench.statistics.verdict import judge
from benchmarks.figures import Figure, share_figure
from benchmarks.harness import parser, run
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
ROUNDS = (2, 3, 4, 6)
EFFECTS = (0.01, 0.02, 0.05)
"""Differences that are planted, to see how often they are found [ratio]."""


def launch(folder: Path, launches: int, preset: str) -> pd.DataFrame:
    """Run the launches and read their rows."""
    file = folder / "launch-spread.yaml"
    file.write_text(SWEEP.format(preset=preset, launches=launches))
    command = [sys.executable, "-m", "bench.cli", "sweep", str(file), "--out", str(folder / "results"), "--no-plot"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return pd.read_parquet(folder / "results" / "results.parquet")


def describe(rows: pd.DataFrame) -> tuple[Machine, list[Figure]]:
    """Say how launches differ, and give a machine that behaves like that."""
    rows = rows[rows["outcome"] == "ok"].sort_values("round")
    logs = np.log(rows["valid_tokens_per_s"].to_numpy(dtype=float))
    place = np.arange(len(logs))
    slope, start = np.polyfit(place, logs, 1)
    slowing = float(1 - np.exp(slope * place[-1]))
    launch_sd = float(np.sqrt(np.sum((logs - start - slope * place) ** 2) / (len(logs) - 2)))
    updates, lag1 = rows["updates_attempted"].to_numpy(dtype=float), rows["lag1"].to_numpy(dtype=float)
    within = rows["spread"].to_numpy(dtype=float) / np.sqrt(updates * (1 - lag1) / (1 + lag1))
    explained = math.sqrt(float(np.mean(within**2)))
    machine = Machine(
        launch_sd=math.sqrt(max(0.0, launch_sd**2 - explained**2)),
        drift=max(0.0, slowing),
        noise=float(rows["spread"].median()),
        lag1=float(rows["lag1"].median()),
        updates=int(rows["updates_attempted"].median()),
    )
    drifting = float(np.mean(["drift" in flags for flags in rows["flags"]]))
    neighbours = float(np.corrcoef(logs[:-1], logs[1:])[0, 1])
    return machine, [
        Figure("", f"spread of {len(rows)} launches, standard deviation of ln(tokens/s)", float(logs.std(ddof=1))),
        Figure("", "   around their trend", launch_sd),
        Figure("", "   of which the updates within launches explain", explained),
        Figure("", "slower at the end of all launches than at their start", slowing),
        Figure("", "correlation of a launch with the next", neighbours, unit="ratio"),
        Figure("", "updates of a launch, median", float(rows["updates_attempted"].median()), unit="count"),
        Figure("", "spread of updates within a launch, median", machine.noise),
        Figure("", "correlation of neighbouring updates (lag-1), median", machine.lag1, unit="ratio"),
        Figure("", "half-width within a launch, median", float(rows["half_width"].median())),
        Figure("", "launches flagged for drift", drifting),
    ]


@dataclass(frozen=True)
class Foreseen:
    """State what so many rounds can tell on a machine."""

    rounds: int
    sweeps: int
    """Sweeps simulated; the pairs of one sweep share a baseline and are no cases of their own."""
    half_width: float
    """Of a pair's interval, on average."""
    coverage: float
    """How often intervals hold the truth."""
    false_alarms: float
    """How often equal configurations are called faster or slower."""
    found: tuple[float, ...]
    """How often each of EFFECTS is called faster."""


def foresee(machine: Machine, rounds: int, sweeps: int) -> Foreseen:
    """Simulate sweeps of so many rounds, and judge all configurations against the first."""
    pairs = [(0, other) for other in range(1, CONFIGURATIONS)]
    found = []
    for effect in (0.0, *EFFECTS):
        generator = np.random.default_rng([20240229, rounds])
        intervals, words = [], []
        for _ in range(sweeps):
            one = layout_intervals(layout(machine, generator, CONFIGURATIONS, rounds, effect=effect), pairs)
            intervals += one
            words += [verdict.word for verdict in judge(one)]
        if effect == 0.0:
            half_width = float(np.mean([interval.half_width for interval in intervals]))
            coverage = float(np.mean([interval.low <= 0 <= interval.high for interval in intervals]))
            false_alarms = float(np.mean([word in {"faster", "slower"} for word in words]))
        else:
            found.append(words.count("faster") / len(words))
    return Foreseen(rounds, sweeps, half_width, coverage, false_alarms, tuple(found))


def figures_of(each: Foreseen) -> Iterator[Figure]:
    """Lay out what so many rounds can tell."""
    of = f"{each.rounds} rounds"
    yield Figure("", f"{of}: half-width of a pair", each.half_width)
    goal = 0.93 if each.rounds > 2 else None
    yield share_figure("M3", f"{of}: intervals hold the truth", each.coverage, each.sweeps, at_least=goal)
    yield Figure("M1", f"{of}: equal ones called different", each.false_alarms, at_most=0.01)
    for effect, share in zip(EFFECTS, each.found, strict=True):
        yield Figure("", f"{of}: +{effect:.0%} found", share)


def block(machine: Machine, foreseen: list[Foreseen]) -> str:
    """Write what was found as Markdown."""
    needed = [blocks_needed(math.sqrt(2) * machine.launch_sd, width) for width in (0.005, 0.01, 0.02)]
    effects = " | ".join(f"+{effect:.0%} found" for effect in EFFECTS)
    machine_words = (
        f"Launch sd {machine.launch_sd:.2%} beside what updates explain, update noise {machine.noise:.2%} with lag-1 "
        f"{machine.lag1:.2f}, {machine.updates} updates a launch, drift {machine.drift:.2%}; simulated sweeps of "
        f"{CONFIGURATIONS} configurations. A pair alone needs {', '.join(map(str, needed))} rounds for +-0.5 %, 1 %, "
        "2 %."
    )
    lines = [
        machine_words,
        "",
        f"| rounds | half-width | holds the truth | equal called different | {effects} |",
        "| --- " * (4 + len(EFFECTS)) + "|",
    ]
    for each in foreseen:
        shares = " | ".join(f"{share:.0%}" for share in each.found)
        lines.append(
            f"| {each.rounds} | {each.half_width:.2%} | {each.coverage:.1%} | {each.false_alarms:.2%} | {shares} |"
        )
    return "\n".join(lines)


def figures(options: argparse.Namespace) -> Iterator[Figure]:
    """Run, read what was run, or take what was said; then simulate."""
    if options.launch_sd is not None:
        machine = Machine(options.launch_sd, options.drift, options.noise, options.lag1, options.updates)
    else:
        if options.results is not None:
            rows = pd.read_parquet(options.results)
        else:
            with tempfile.TemporaryDirectory() as folder:
                launches = options.launches or (6 if options.quick else 20)
                rows = launch(Path(folder), launches, options.preset or ("quick" if options.quick else "normal"))
        machine, described = describe(rows)
        yield from described
    foreseen = []
    for rounds in ROUNDS:
        foreseen.append(foresee(machine, rounds, 60 if options.quick else 400))
        yield from figures_of(foreseen[-1])
    print(block(machine, foreseen))


def main() -> None:
    """Print the figures and the block."""
    options_of = parser("benchmarks.launch_spread", __doc__)
    options_of.add_argument("--launches", type=int, help="launches to run  [default: 20, quick 6]")
    options_of.add_argument("--preset", choices=["quick", "normal", "strict"], help="[default: normal, quick quick]")
    options_of.add_argument("--results", type=Path, help="read this results.parquet instead of running")
    options_of.add_argument("--launch-sd", type=float, help="run nothing: launches differ by so much  [ratio]")
    options_of.add_argument("--lag1", type=float, default=0.6, help="correlation of updates  [default: 0.6]")
    options_of.add_argument("--noise", type=float, default=0.005, help="spread of updates  [ratio, default: 0.005]")
    options_of.add_argument("--drift", type=float, default=0.0, help="slowing while it heats  [ratio, default: 0]")
    options_of.add_argument("--updates", type=int, default=100, help="updates of a launch  [default: 100]")
    options = options_of.parse_args()
    run("launch_spread", figures(options), options)


if __name__ == "__main__":
    main()
