"""Render results as a table for people, or as CSV, Markdown, LaTeX or JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from bench.report.launch_rows import LaunchRows
from bench.report.layout import layout
from bench.report.named_results import SOURCE
from bench.report.select import rows_of
from bench.report.text_table import TextTable, chosen_table, default_table
from bench.report.where import require_columns

if TYPE_CHECKING:
    import pandas as pd

Format = Literal["table", "csv", "markdown", "latex", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)
JSON_FORMAT = 1
"""Version of the JSON document's shape."""
WIDEST = 10_000
"""Width that stands for "no limit", where nothing but a pipe reads the table [characters]."""

_STYLES = {"title": "bold", "header": "bold", "note": "dim", "not_ok": "yellow"}


def render(
    frame: pa.Table | pd.DataFrame,
    format: Format = "table",  # noqa: A002 - the option's name
    columns: Sequence[str] = (),
    width: int = WIDEST,
    color: bool = False,
) -> str:
    """Render results as text that ends with a newline.

    CSV and JSON are in base units and hold every column unless some are chosen; a float that is not finite is
    missing there, as JSON cannot tell it. Table, Markdown and LaTeX are for people: bytes are scaled, the unit stands
    in the heading, and a row that is not ok gives its reason instead of numbers.

    Args:
        frame: What `select_table` or `load_results` gave.
        format: One of `FORMATS`.
        columns: Columns to show, in this order; the default depends on the format.
        width: Width of the terminal, for the table [characters].
        color: Whether to use terminal colours in the table.

    Raises:
        BenchError: A chosen column does not exist.
    """
    require_columns(columns)
    if isinstance(frame, pa.Table) and columns and format in ("csv", "json"):
        frame = frame.select(list(columns))
    known = frame.column_names if isinstance(frame, pa.Table) else frame
    names = list(columns) or [str(name) for name in known if name != SOURCE]
    if format == "csv" or format == "json":
        return render_rows(rows_of(frame), names, format)
    # People read few of the columns, so only those become Python values.
    rows = LaunchRows.of_table(frame) if isinstance(frame, pa.Table) else rows_of(frame)
    return render_text(chosen_table(rows, columns) if columns else default_table(rows), format, width, color)


def render_rows(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    format: Literal["csv", "json"],  # noqa: A002 - as in render
    head: Mapping[str, Any] | None = None,
) -> str:
    """Render rows for programs, in base units, every name in every row; `head` goes before the rows of JSON."""
    if format == "csv":
        return _csv(rows, names)
    return json_text({**(head or {}), "rows": [{name: row.get(name) for name in names} for row in rows]})


def json_text(document: Mapping[str, Any]) -> str:
    """Write one JSON document that every strict reader takes: a float that is not finite is null."""
    return json.dumps(finite({"format": JSON_FORMAT, **document}), allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def render_text(
    table: TextTable,
    format: Literal["table", "markdown", "latex"],  # noqa: A002 - as in render
    width: int = WIDEST,
    color: bool = False,
) -> str:
    """Render a phrased table as text for a terminal, or as Markdown or LaTeX."""
    return _text(table, width, color) if format == "table" else _document(table, format)


def _csv(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_csv_cell(finite(row.get(name))) for name in names])
    return stream.getvalue()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else value


def finite(value: Any) -> Any:
    """Put None for every nan and infinity, at any depth: JSON has neither."""
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, Mapping):
        return {name: finite(item) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text(table: TextTable, width: int, color: bool) -> str:
    lines = layout(table, width)
    if not color:
        return "".join(text + "\n" for _, text in lines)
    from rich.style import Style

    return "".join(Style.parse(_STYLES.get(kind, "none")).render(text) + "\n" for kind, text in lines)


def _document(table: TextTable, format: Literal["markdown", "latex"]) -> str:  # noqa: A002 - as in render
    """Write Markdown or LaTeX by way of pandas; a row that is not ok has its reason in its first number's cell."""
    import pandas as pd

    first = next((index for index, column in enumerate(table.columns) if column.is_number), len(table.columns))
    cells = [
        [
            column.cells[row].strip() if reason is None or index < first else reason if index == first else ""
            for index, column in enumerate(table.columns)
        ]
        for row, reason in enumerate(table.reasons)
    ]
    aligns = ["right" if column.is_number else "left" for column in table.columns]
    escape = _latex if format == "latex" else _markdown
    heads = pd.Index([escape(column.header) for column in table.columns])
    data = pd.DataFrame([[escape(cell) for cell in row] for row in cells], columns=heads)
    if format == "latex":
        return str(data.to_latex(index=False, column_format="".join(align[0] for align in aligns)))
    return str(data.to_markdown(index=False, disable_numparse=True, colalign=aligns if cells else None)) + "\n"


def _markdown(text: str) -> str:
    return text.replace("|", "\\|")


_LATEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
