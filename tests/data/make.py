"""Write the golden files of this folder anew: `python -m tests.data.make`. Read the difference before committing it."""

from __future__ import annotations

from pathlib import Path

from bench.record.parquet_file import table_of_rows
from bench.record.schema import schema
from bench.report.table import render
from tests.strategies import numbered, quickstart_rows

FOLDER = Path(__file__).parent


def golden_texts() -> dict[str, str]:
    """Render the small sweep in every form that has a golden file."""
    table = table_of_rows(numbered(quickstart_rows()), schema())
    names = ["trial_id", "outcome", "amp_mode", "peak_allocated_bytes", "flags", "reason"]
    return {
        "show_80.txt": render(table, width=80),
        "show_200.txt": render(table, width=200),
        "show_40.txt": render(table, width=40),
        "show.md": render(table, "markdown"),
        "show.tex": render(table, "latex"),
        "show.csv": render(table, "csv", names),
        "show.json": render(table, "json", names),
    }


if __name__ == "__main__":
    for name, text in golden_texts().items():
        (FOLDER / name).write_text(text)
