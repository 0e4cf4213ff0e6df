"""Lay a table for people out as lines of text that fit a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

from rich.cells import cell_len, set_cell_size

from bench.report.text_table import TextColumn, TextTable
from bench.report.wrap import wrap

_GAP = "  "
_LEAST_TEXT_WIDTH = 10
"""A column of text is not cut below this [characters]."""
_LEAST_REASON_WIDTH = 20
"""A reason with less room than this beside its row stands below it [characters]."""


def layout(table: TextTable, width: int) -> list[tuple[str, str]]:
    """Return (kind, text) lines, at most `width` wide where that can be done.

    Kinds: title, note, header, ok, not_ok, blank. Headings break at spaces; where that is not enough the columns
    that matter least are left out, which a note says, and then long texts are cut, which "~" shows.
    """
    columns, dropped = _fitting(table.columns, width)
    widths = _shrunk(columns, width)
    lines = [("title", table.title)] if table.title else []
    lines += [("note", text) for text in wrap(table.constants, width)]
    lines += [("blank", ""), *_header(columns, widths)] if table.reasons else []
    for index, reason in enumerate(table.reasons):
        lines += _row(columns, widths, index, reason, width)
    notes = [*table.notes, *([f"columns that did not fit: {', '.join(dropped)}"] if dropped else [])]
    if notes:
        lines.append(("blank", ""))
        lines += [("note", line) for note in notes for line in wrap(note, width, rest="  ")]
    return [(kind, text.rstrip()) for kind, text in lines]


def _natural(column: TextColumn) -> int:
    """Give the width that fits every cell, and the heading in two lines."""
    heading = max(map(cell_len, column.header.split()), default=1)
    while len(textwrap.wrap(column.header, heading)) > 2:
        heading += 1
    return max([heading, *map(cell_len, column.cells)])


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * max(0, len(widths) - 1)


def _fitting(columns: Sequence[TextColumn], width: int) -> tuple[list[TextColumn], list[str]]:
    """Leave out what there is no room for: results of second rank before texts are cut, axes only after."""
    kept, dropped = list(columns), []

    def drop_while_too_wide(keep: int, widths_of: Callable[[Sequence[TextColumn]], Sequence[int]]) -> None:
        while _total(widths_of(kept)) > width and (loose := [column for column in kept if column.keep < keep]):
            least = min(reversed(loose), key=lambda column: column.keep)
            kept.remove(least)
            dropped.append(least.header)

    drop_while_too_wide(4, lambda some: [_natural(column) for column in some])
    drop_while_too_wide(9, lambda some: _shrunk(some, width))
    return kept, dropped


def _shrunk(columns: Sequence[TextColumn], width: int) -> list[int]:
    widths = [_natural(column) for column in columns]
    while _total(widths) > width:
        texts = [i for i, column in enumerate(columns) if not column.is_number and widths[i] > _LEAST_TEXT_WIDTH]
        if not texts:
            break
        widths[max(texts, key=widths.__getitem__)] -= 1
    return widths


def _header(columns: Sequence[TextColumn], widths: Sequence[int]) -> list[tuple[str, str]]:
    stacks = [textwrap.wrap(column.header, width) or [""] for column, width in zip(columns, widths, strict=True)]
    height = max(map(len, stacks))
    stacks = [[""] * (height - len(stack)) + stack for stack in stacks]
    lines = [
        _GAP.join(_fit(c, cell, w) for c, cell, w in zip(columns, cells, widths, strict=True))
        for cells in zip(*stacks, strict=True)
    ]
    return [("header", line) for line in lines] + [("note", _GAP.join("-" * width for width in widths))]


def _row(
    columns: Sequence[TextColumn], widths: Sequence[int], index: int, reason: str | None, width: int
) -> list[tuple[str, str]]:
    shown = len(columns)
    if reason is not None:
        shown = next((i for i, column in enumerate(columns) if column.is_number), shown)
    cells = [_fit(columns[i], columns[i].cells[index], widths[i]) for i in range(shown)]
    if reason is None:
        return [("ok", _GAP.join(cells))]
    left = "".join(cell + _GAP for cell in cells)
    room = width - cell_len(left)
    if room < _LEAST_REASON_WIDTH:
        return [("not_ok", line) for line in (left, *_wrapped(reason, "    ", width))]
    first, *more = _wrapped(reason, " " * cell_len(left), min(width, cell_len(left) + max(60, _total(widths))))
    return [("not_ok", left + first.lstrip()), *(("not_ok", "  " + line) for line in more)]


def _wrapped(text: str, indent: str, width: int) -> list[str]:
    return wrap(text, width - 2, indent, indent) or [indent]


def _fit(column: TextColumn, cell: str, width: int) -> str:
    size = cell_len(cell)
    if size > width:
        return set_cell_size(cell, width - 1) + "~"
    return " " * (width - size) + cell if column.is_number else cell + " " * (width - size)
