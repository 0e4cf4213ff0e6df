"""What keeping a launch safe costs: the journal's lines, and the parts with its rows, durable on return.

Each is written as the driver writes it, in the results folder's own file system: one line when a launch begins and one
when it ended, appended and fsynced; two parquet parts, each written aside, fsynced, renamed, the folder fsynced. Goal
R6: the journal takes at most 20 ms a trial.

Run: python -m benchmarks.write_cost [--folder results] [--launches 50] [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.record.journal import Journal
from bench.record.store import write_part
from benchmarks.figures import Figure, median_figure
from benchmarks.harness import parser, run
from tests.planted import config, launches, losses

JOURNAL_S = 0.020
UPDATES = 60


def figures(options: argparse.Namespace) -> Iterator[Figure]:
    """Record launches."""
    count = options.launches or (10 if options.quick else 50)
    rows = launches([config(1000.0 + number, seed=number) for number in range(count)], 1)
    journal_s, parts_s, part_bytes = [], [], 0
    with tempfile.TemporaryDirectory(dir=options.folder) as name, Journal(Path(name) / "journal.jsonl") as journal:
        journal.append({"kind": "header"})
        for row in rows:
            key = {name: row[name] for name in ("trial_id", "round", "attempt")}
            start = time.perf_counter()
            journal.append({"kind": "running", **key, "order": 0, "token": "0" * 32, "pid": 1, "boot_id": "0" * 36})
            begun = time.perf_counter()
            part = write_part(Path(name), row, losses([3.0] * UPDATES))
            written = time.perf_counter()
            journal.append({"kind": "launch", **key, "outcome": "ok", **part.journal_fields()})
            journal_s.append(time.perf_counter() - written + begun - start)
            parts_s.append(written - begun)
            part_bytes += sum((Path(name) / file).stat().st_size for file in (part.part, part.updates_part))
    yield median_figure("journal, two lines appended and fsynced, a launch", journal_s, JOURNAL_S, "R6")
    yield Figure("R6", "   the slowest of them", max(journal_s), unit="s")
    yield median_figure(f"parts, a row and {UPDATES} updates, {part_bytes / count / 1e3:.0f} kB a launch", parts_s)
    yield Figure("", "   the slowest of them", max(parts_s), unit="s")


def main() -> None:
    """Print the seconds."""
    options_of = parser("benchmarks.write_cost", __doc__)
    options_of.add_argument("--folder", type=Path, default=Path("results"), help="write below it  [default: results]")
    options_of.add_argument("--launches", type=int, help="launches recorded  [default: 50, quick 10]")
    options = options_of.parse_args()
    run("write_cost", figures(options), options)


if __name__ == "__main__":
    main()
