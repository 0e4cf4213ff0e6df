"""What a launch costs beside its updates: ours, the same by spawn, and the same under torchrun.

Cost = request to reaped exit, less the seconds spent in updates, of launches after the first [s]. The work is the same
for all: a nano model, the corpus cached. Prints medians with their range, and ratios to ours.

Run: python -m benchmarks.launch_cost [--launches 6] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench.drive.driver import run_sweep
from bench.drive.work import rank_launcher
from bench.launch.launcher import Launcher
from bench.launch.trial_file import TrialFile
from bench.record.paths import LaunchPaths
from bench.record.store import read_table, read_update_table
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.flags import sweep_from_flags
from bench.sweep.trial import Sweep, Trial
from benchmarks.figures import Figure, median_figure
from benchmarks.harness import Quiet, parser, run

GOALS_S = {1: 0.10, 2: 0.15}
"""Most that a launch of so many ranks may cost [s]."""

_FACTS = MachineFacts("cpu", 0)
_PROGRAM = (
    "import os; from pathlib import Path; from bench.record.paths import LaunchPaths; "
    "from bench.rank.worker import run_rank; "
    "raise SystemExit(run_rank(LaunchPaths(Path(os.environ['BENCH_FOLDER'])), int(os.environ['RANK'])) != 'ok')"
)


def sweep_of(ranks: int, launches: int) -> Sweep:
    """Ask for so many launches of one trial."""
    config = {
        "device": "cpu",
        "model.preset": "gpt2-nano",
        "global_batch_size": 4,
        "world_size": ranks,
        "cpu_threads_per_rank": 1,
    }
    measure = {"warmup_updates": 1, "updates": 5, "quality_updates": 0, "rounds": launches}
    return sweep_from_flags(config, measure, "launch-cost")


def costs_of_launcher(launcher: Launcher, ranks: int, launches: int) -> list[float]:
    """Measure launches of a whole sweep; the first is left out."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "results"
        run_sweep(sweep_of(ranks, launches + 1), folder, _FACTS, Quiet(), launcher=launcher)
        rows = read_table(folder / "results.parquet").to_pylist()
        updates = read_update_table(folder / "updates.parquet").to_pylist()
    assert {row["outcome"] for row in rows} == {"ok"}, rows
    in_updates = {
        row["round"]: sum(update["seconds"] or 0.0 for update in updates if update["round"] == row["round"])
        for row in rows
    }
    return [row["launch_s"] - in_updates[row["round"]] for row in sorted(rows, key=lambda row: row["round"])[1:]]


def costs_of_torchrun(ranks: int, launches: int) -> list[float]:
    """Measure the same worker under torchrun, a fresh one each time."""
    (point,) = expand(sweep_of(ranks, 1), _FACTS)
    assert isinstance(point, Trial)
    costs = []
    for number in range(launches):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            paths = LaunchPaths(folder)
            measure = sweep_of(ranks, 1).spec.measure
            TrialFile("torchrun", point.trial_id, number, 0, 0, point.config, measure, ranks, ()).write(
                paths.trial_file
            )
            script = folder / "rank.py"
            script.write_text(_PROGRAM)
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
            environment = os.environ | {"BENCH_FOLDER": str(folder)}
            started_s = time.monotonic()
            done = subprocess.run([*command, str(script)], env=environment, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise SystemExit(done.stderr)
            seconds = time.monotonic() - started_s
            updates = json.loads(paths.rank_file(0).read_text())["updates"]
            costs.append(seconds - sum(update["seconds"] or 0.0 for update in updates))
    return costs


def figures(options: argparse.Namespace) -> Iterator[Figure]:
    """Launch one and two ranks in each way."""
    launches = options.launches or (3 if options.quick else 6)
    server = rank_launcher()
    for ranks, goal_s in GOALS_S.items():
        of = f"{ranks} rank{'s' if ranks > 1 else ''}"
        ours = costs_of_launcher(server, ranks, launches)
        yield median_figure(f"launch after the first beside its updates, {of}", ours, goal_s)
        for name, costs in (
            ("spawned", costs_of_launcher(rank_launcher("spawn"), ranks, launches)),
            ("under torchrun", costs_of_torchrun(ranks, launches)),
        ):
            yield _against(median_figure(f"   the same {name}, {of}", costs), ours)


def _against(figure: Figure, ours: list[float]) -> Figure:
    """Add how many times ours it is."""
    assert figure.reached is not None, "there are samples"
    return replace(figure, note=f"{figure.reached / statistics.median(ours):.0f} x ours")


def main() -> None:
    """Print the seconds."""
    options_of = parser("benchmarks.launch_cost", __doc__)
    options_of.add_argument("--launches", type=int, help="launches of each kind  [default: 6, quick 3]")
    options = options_of.parse_args()
    run("launch_cost", figures(options), options)


if __name__ == "__main__":
    main()
