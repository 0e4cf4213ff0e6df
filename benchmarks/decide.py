"""How long a decision takes on 100,000 rows: `python -m benchmarks.decide`. Goal: load and recommend in 2 s."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench.record.parquet_file import encode_table, table_of_rows
from bench.record.schema import schema
from bench.report.launches import load_launches
from bench.report.page import build_page
from bench.report.recommend import Question, recommend
from bench.report.select import select_table
from tests.planted import config, launches

CONFIGURATIONS, ROUNDS = 33_334, 3


def write(folder: Path) -> None:
    """Write 33,334 configurations in 3 rounds."""
    configs = [
        config(1000 + number % 977, micro_batch_size=2 ** (number % 6), seed=number, config_json="{}")
        for number in range(CONFIGURATIONS)
    ]
    (folder / "results.parquet").write_bytes(encode_table(table_of_rows(launches(configs, ROUNDS), schema())))


def main() -> None:
    """Print seconds for loading, recommending and the page, the best of three, and the page's size."""
    import bench.measure.verdict  # noqa: F401 - scipy's import, a second once, is not what is measured

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        best = {"load": 1e9, "recommend": 1e9}
        for _ in range(3):
            start = time.perf_counter()
            rows = load_launches([folder])
            loaded = time.perf_counter()
            recommend(rows, Question())
            done = time.perf_counter()
            best["load"] = min(best["load"], loaded - start)
            best["recommend"] = min(best["recommend"], done - loaded)
        print(f"{len(rows):,} rows: load {best['load']:.2f} s, recommend {best['recommend']:.2f} s, best of 3")
        start = time.perf_counter()
        page = build_page(select_table([folder]))
        seconds = time.perf_counter() - start
        size = len(page.text.encode()) / 1e6
        print(f"page: {seconds:.1f} s, {size:.2f} MB, {page.shown} of {page.total:,} configurations shown")


if __name__ == "__main__":
    main()
