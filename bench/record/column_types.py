"""Say what one column is: its kind, unit, rule across ranks and sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["string", "int64", "float64", "bool", "list<string>", "list<int64>", "list<float64>"]
Rule = Literal["launch", "config", "same", "rank0", "sum", "max", "worst", "min", "any", "union", "per_rank", "derived"]

RULE_WORDS: dict[Rule, str] = {
    "launch": "set once by the driver",
    "config": "from the trial",
    "same": "equal on every rank, else the launch is refused",
    "rank0": "of rank 0",
    "sum": "sum; null when a rank did not report",
    "max": "largest",
    "worst": "of the rank with the largest peak_requested_bytes (peak_allocated_bytes where that is null), so that "
    "parts of its peak add up to it",
    "min": "smallest",
    "any": "true when it is on any rank",
    "union": "union of the ranks' lists",
    "per_rank": "list, one entry per rank",
    "derived": "computed from other columns",
}
"""What each rule does with the values of the ranks, in words for the documentation."""

INT64_RANGE = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Column:
    """Describe one column of a table."""

    name: str
    """Count, thing, scope and unit."""
    kind: Kind
    """Type in parquet; every column is nullable."""
    unit: str | None
    """Base unit in the singular (byte, second, token/second, ...); null where there is none."""
    group: str
    """Heading the documentation lists it under."""
    rule: Rule
    """How the values of the ranks become one."""
    sentence: str
    """What the value is, over what, and what null means."""
    source: str | None = None
    """Name a rank reports the single value under, for the rule per_rank; null otherwise."""


def value_fault(column: Column, value: Any) -> str | None:
    """Say why `value` cannot be stored in `column`, or None when it can.

    No value is converted silently: a bool is no integer, 3.0 is no integer, "8" is no number; an integer is a number.
    """
    if value is None:
        return None
    if column.kind.startswith("list<"):
        if not isinstance(value, list | tuple):
            return f"{column.name} = {value!r} is not a list"
        inner = column.kind.removeprefix("list<").removesuffix(">")
        bad = next((item for item in value if not _fits(inner, item)), None)
        return None if bad is None else f"{column.name} holds {bad!r}, which is not {inner}"
    return None if _fits(column.kind, value) else f"{column.name} = {value!r} is not {column.kind}"


def row_faults(columns: Mapping[str, Column], row: Mapping[str, Any]) -> list[str]:
    """List every value of `row` that its column cannot hold, and every name that is no column."""
    unknown = [f"{name} is not a declared column" for name in row if name not in columns]
    found: Iterable[str | None] = (value_fault(columns[name], value) for name, value in row.items() if name in columns)
    return unknown + [fault for fault in found if fault is not None]


def _fits(kind: str, value: Any) -> bool:
    if value is None:
        return True
    if kind == "string":
        return isinstance(value, str)
    if kind == "bool":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if kind == "int64":
        return isinstance(value, int) and value in INT64_RANGE
    return isinstance(value, int | float)
