"""How much of a sweep is training: seconds spent in updates / wall time, of 24 trials timed for a second each.

The whole of `run_sweep`, proof and tables at the end included; only the start of the fork server, once a sweep, comes
before. The corpus is cached. Goal: at least 0.90.

Run: python -m benchmarks.sweep_share [--trials 24] [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.drive.driver import run_sweep
from bench.drive.work import rank_launcher
from bench.record.store import read_table, read_update_table
from bench.sweep.check import check_document
from bench.sweep.expand import MachineFacts
from bench.sweep.trial import Sweep
from benchmarks.figures import Figure
from benchmarks.harness import Quiet, parser, run

GOAL = 0.90
_FACTS = MachineFacts("cpu", 0)


def sweep_of(trials: int) -> Sweep:
    """Ask for trials of a small model, each timed for a second or a little more."""
    base = {
        "device": "cpu",
        "model": {"preset": "gpt2-tiny"},
        "global_batch_size": 8,
        "micro_batch_size": 4,
        "cpu_threads_per_rank": 1,
    }
    measure = {"preset": "quick", "rounds": 1, "quality_updates": 0}
    document = {
        "format": 1,
        "name": "share",
        "base": base,
        "axes": {"seed": list(range(trials))},
        "measure": measure,
    }
    spec, faults = check_document(document)
    assert spec is not None, faults
    return Sweep(spec.name, None, "", spec, tuple(spec.axes), "")


def figures(options: argparse.Namespace) -> Iterator[Figure]:
    """Run one sweep."""
    trials = options.trials or (4 if options.quick else 24)
    launcher = rank_launcher()
    with tempfile.TemporaryDirectory() as name:
        run_sweep(sweep_of(1), Path(name) / "before", _FACTS, Quiet(), launcher=launcher)
        folder = Path(name) / "results"
        start = time.monotonic()
        run_sweep(sweep_of(trials), folder, _FACTS, Quiet(), launcher=launcher, prove=True)
        wall_s = time.monotonic() - start
        rows = read_table(folder / "results.parquet").to_pylist()
        updates = read_update_table(folder / "updates.parquet").to_pylist()
    assert {row["outcome"] for row in rows} == {"ok"}, rows
    in_updates_s = sum(update["seconds"] for update in updates)
    timed_s = sum(row["timed_s"] for row in rows)
    what = f"of {trials} trials' wall time spent in updates"
    yield Figure("", what, in_updates_s / wall_s, at_least=GOAL, note=f"{in_updates_s:.0f} s of {wall_s:.0f} s")
    yield Figure("", "   of which in the timed part", timed_s / wall_s)
    launches_s = sum(row["launch_s"] for row in rows)
    yield Figure("", "   wall time between launches: proof, records, tables", 1 - launches_s / wall_s)


def main() -> None:
    """Print the share."""
    options_of = parser("benchmarks.sweep_share", __doc__)
    options_of.add_argument("--trials", type=int, help="trials of the sweep  [default: 24, quick 4]")
    options = options_of.parse_args()
    run("sweep_share", figures(options), options)


if __name__ == "__main__":
    main()
