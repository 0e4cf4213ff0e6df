"""How many probes the search for the largest micro-batch takes, and whether it finds it, up to 256.

Every limit from none to all, under a planted capacity, for several shapes of memory over micro-batch size; then real
launches whose device claims a capacity of which 41 sequences leave the headroom free and 42 do not. Exact is what the
rows say by `fits`. Goal: exact, at most 7 probes.

Run: python -m benchmarks.search_probes [--quick]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from bench.drive.driver import run_sweep
from bench.drive.work import rank_launcher
from bench.record.fit import HEADROOM
from bench.sweep.check import check_document
from bench.sweep.expand import MachineFacts
from bench.sweep.trial import Sweep
from benchmarks.figures import Figure
from benchmarks.harness import Quiet, parser, run
from tests.unit.drive.test_search import bent, floored, planted_limits, rounded, straight

PROBES = 7
LIMIT = 41
_FACTS = MachineFacts("cpu", 0)


def sweep_of(micro_batch_size: Any) -> Sweep:
    """Ask for sizes, or for the largest that fits."""
    document = {
        "format": 1,
        "name": "search",
        "base": {
            "device": "cpu",
            "model": {"preset": "gpt2-nano"},
            "data": {"synthetic": {"documents": 400, "mean_tokens": 20}, "rows": "padded"},
            "seq_len": 32,
            "accumulation_steps": 2,
            "cpu_threads_per_rank": 1,
        },
        "axes": {"micro_batch_size": micro_batch_size},
        "measure": {"warmup_updates": 0, "updates": 1, "quality_updates": 0},
    }
    spec, faults = check_document(document)
    assert spec is not None, faults
    return Sweep(spec.name, None, "", spec, tuple(spec.axes), "")


def launched(folder: Path) -> tuple[int, int]:
    """Search by real launches; the size found, and the launches it took."""
    faults = folder / "faults"
    faults.write_text("")
    os.environ["BENCH_FAULTS"] = str(faults)  # read by each rank; named before the fork server starts
    launcher = rank_launcher()

    def rows_of(name: str, micro_batch_size: Any) -> pd.DataFrame:
        run_sweep(sweep_of(micro_batch_size), folder / name, _FACTS, Quiet(), launcher=launcher)
        return pd.read_parquet(folder / name / "results.parquet").set_index("micro_batch_size")

    peaks = rows_of("peaks", [LIMIT, LIMIT + 1])["peak_allocated_bytes"]
    middle = int(peaks[LIMIT] + peaks[LIMIT + 1]) // 2
    faults.write_text(f"capacity:1:bytes={int(middle / (1 - HEADROOM))}")
    rows = rows_of("search", {"max": 256})
    return int(rows.index[rows["fits"].eq(True)].max()), len(rows)


def figures(options: argparse.Namespace) -> Iterator[Figure]:
    """Search."""
    del options
    for peak in (straight, rounded, floored, bent):
        found = list(planted_limits(peak))
        right = sum(is_exact for is_exact, _ in found) / len(found)
        most = max(probes for _, probes in found)
        yield Figure("", f"limits from 0 to 256 found exactly, memory {peak.__name__}", right, at_least=1.0)
        yield Figure("", "   most probes", most, at_most=PROBES, unit="count")
    with tempfile.TemporaryDirectory() as name:
        size, launches = launched(Path(name))
    yield Figure("", f"largest of 256 by real launches, {LIMIT} fit", size, LIMIT, LIMIT, unit="count")
    yield Figure("", "   launches", launches, at_most=PROBES, unit="count")


def main() -> None:
    """Print the counts."""
    options = parser("benchmarks.search_probes", __doc__).parse_args()
    run("search_probes", figures(options), options)


if __name__ == "__main__":
    main()
