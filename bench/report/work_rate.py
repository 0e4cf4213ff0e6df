"""How fast work was done: in valid tokens where the loss is a mean over tokens, else in the loss's own unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bench.report.launch_rows import Row, column_of

_WORDS = {"token": "valid tokens", "example": "examples", "weight": "units of weight"}
_SHORT = {"token": "tokens", "example": "examples", "weight": "units"}


def unit_of(row: Row) -> str:
    """Name what the loss is a mean over; rows of versions that knew only tokens do not say."""
    return str(row.get("unit") or "token")


def unit_words(rows: Iterable[Row]) -> str:
    """Say in words what is counted per second in these rows: valid tokens, examples; of several units: units."""
    units = {unit_of(row) for row in rows}
    return _WORDS.get(next(iter(units)), "units") if len(units) == 1 else "valid tokens" if not units else "units"


def short_unit(rows: Iterable[Row]) -> str:
    """Say the same in one word, as in a heading: tokens, examples, units."""
    units = {unit_of(row) for row in rows}
    return _SHORT.get(next(iter(units)), "units") if len(units) == 1 else "tokens" if not units else "units"


def speed_of(row: Row) -> Any:
    """Give a row's speed, which configurations are ranked by [valid tokens/s, or units/s; all ranks]."""
    tokens = row.get("valid_tokens_per_s")
    return row.get("units_per_s") if tokens is None else tokens


def speeds_of(rows: Sequence[Row]) -> list[Any]:
    """Give every row's speed by columns; see `speed_of`."""
    tokens, units = column_of(rows, "valid_tokens_per_s"), column_of(rows, "units_per_s")
    return [unit if token is None else token for token, unit in zip(tokens, units, strict=True)]


def per_update(row: Row) -> Any:
    """Give the mean valid tokens, or units, of a row's updates; null where it is not known."""
    tokens = row.get("valid_tokens_per_update")
    return row.get("units_per_update") if tokens is None else tokens


def tokens_only(row: Row, value: Any) -> Any:
    """Leave a value that is said to be of valid tokens null where it is of another unit."""
    return value if unit_of(row) == "token" else None
