"""How often the two-point law's 95 % interval holds the launches of a count that was left out.

Runs a sweep over accumulation steps for two micro-batch sizes, all else equal, in three rounds; leaves each count out
in turn, fits the law to the others and holds its interval against the launches that it has not seen. Goal: at least
0.90; that few launches tell 0.95 to within about 0.06.

Run: python -m benchmarks.two_point_law [--results FOLDER] [--quick]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.decide.law import fit_laws, mean_update_s
from bench.drive.driver import run_sweep
from bench.report.launches import load_launches
from bench.report.points import Row
from bench.sweep.check import check_document
from bench.sweep.expand import MachineFacts
from bench.sweep.trial import Sweep
from benchmarks.figures import Figure, share_figure
from benchmarks.harness import Quiet, parser, run, say

GOAL = 0.90
STEPS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True)
class HeldOut:
    """State one launch of a count that the law was not fitted to."""

    accumulation_steps: int
    is_inside: bool
    error: float
    """Predicted / measured - 1."""


def sweep_of(steps: Sequence[int], rounds: int) -> Sweep:
    """Ask for a sweep over accumulation steps."""
    document = {
        "format": 1,
        "name": "law",
        "base": {"device": "cpu", "model": {"preset": "gpt2-tiny"}, "seq_len": 64, "cpu_threads_per_rank": 1},
        "axes": {"micro_batch_size": [2, 4], "accumulation_steps": list(steps)},
        "measure": {"preset": "quick", "rounds": rounds},
    }
    spec, faults = check_document(document)
    assert spec is not None, faults
    return Sweep(spec.name, None, "", spec, tuple(spec.axes), "")


def held_out(rows: Sequence[Row]) -> list[HeldOut]:
    """Leave every count out in turn, and hold each of its launches against the law of the others."""
    found = []
    for whole in fit_laws(rows):
        group = [row for row in rows if row["micro_batch_size"] == whole.row["micro_batch_size"]]
        for count in whole.steps:
            for law in fit_laws([row for row in group if row["accumulation_steps"] != count]):
                predicted = law.predict(count)
                for row in group:
                    seconds = mean_update_s(row)
                    if row["accumulation_steps"] != count or seconds is None or predicted.update_s_low is None:
                        continue
                    is_inside = predicted.update_s_low <= seconds <= (predicted.update_s_high or 0)
                    found.append(HeldOut(count, is_inside, predicted.update_s / seconds - 1))
    return found


def figures(options: argparse.Namespace) -> Iterator[Figure]:
    """Run the sweep, or read one."""
    with tempfile.TemporaryDirectory() as name:
        folder = options.results or Path(name) / "law"
        if options.results is None:
            steps, rounds = (STEPS[::2], 2) if options.quick else (STEPS, 3)
            run_sweep(sweep_of(steps, rounds), folder, MachineFacts("cpu", 0), Quiet())
        rows = load_launches([folder])
    for law in fit_laws(rows):
        say(f"  micro-batch {law.row['micro_batch_size']}: {law.sentence()}; fails: {'; '.join(law.failures) or 'no'}")
    found = held_out(rows)
    for count in sorted({one.accumulation_steps for one in found}):
        errors = ", ".join(f"{100 * one.error:+.1f} %" for one in found if one.accumulation_steps == count)
        say(f"  A = {count:>3} held out: predicted / measured - 1 = {errors}")
    share = statistics.fmean(one.is_inside for one in found)
    yield share_figure("", "launches of a count left out inside the law's 95 % interval", share, len(found), GOAL)
    worst = statistics.median(abs(one.error) for one in found)
    yield Figure("", "   predicted / measured - 1, median without its sign", worst, note=f"{len(found)} launches")


def main() -> None:
    """Print the share."""
    options_of = parser("benchmarks.two_point_law", __doc__)
    options_of.add_argument("--results", type=Path, metavar="FOLDER", help="read this sweep instead of running one")
    options = options_of.parse_args()
    run("two_point_law", figures(options), options)


if __name__ == "__main__":
    main()
