"""Reduce what the ranks reported to one row per launch and one per update, by each column's rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.errors import BenchError
from bench.record.column_types import Column, row_faults
from bench.record.columns import COLUMNS, UPDATE_COLUMN_BY_NAME
from bench.record.columns.memory import divided_bytes
from bench.record.columns.updates import UPDATE_COLUMNS

_NOT_A_RANKS_BUSINESS = ("launch", "config", "derived")


class ReduceError(BenchError):
    """Report that the ranks contradict each other, or reported an unknown column."""


def reduce_ranks(
    rank_documents: Sequence[Mapping[str, Any]], world_size: int | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Reduce rank documents to the columns ranks report, and to one row per update.

    Args:
        rank_documents: Contents of the `rank-N.json` files, in any order; uses `rank`, `columns` and `updates`.
        world_size: Ranks the launch had; by default as many as there are documents. A rank without a document
            reported nothing: its entry in a list is null and a sum over the ranks is unknown.

    Returns:
        The row, holding only columns that some rank reported, and the update rows in order of update. Neither
        depends on the order of the documents.

    Raises:
        ReduceError: Values that must be equal differ, a name is not declared, or a value does not fit its column.
    """
    by_rank = {int(document["rank"]): document for document in rank_documents}
    ranks = range(len(rank_documents) if world_size is None else world_size)
    if len(by_rank) != len(rank_documents) or not all(rank in ranks for rank in by_rank):
        reported = sorted(int(document["rank"]) for document in rank_documents)
        raise ReduceError(f"ranks {reported} reported, but each of 0..{len(ranks) - 1} may report once.")
    columns = {rank: by_rank.get(rank, {}).get("columns", {}) for rank in ranks}
    updates = {rank: by_rank.get(rank, {}).get("updates", []) for rank in ranks}
    return _reduce_row(columns), _reduce_updates(updates)


def _reduce_row(reported: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    accepted = {_key(column): _single(column) for column in COLUMNS if column.rule == "per_rank"}
    accepted |= {column.name: column for column in COLUMNS if column.rule not in (*_NOT_A_RANKS_BUSINESS, "per_rank")}
    for rank, values in reported.items():
        _refuse_faults(rank, accepted, values)
    return {column.name: _apply(column, reported, "") for column in COLUMNS if _is_reported(column, reported)}


def _reduce_updates(reported: Mapping[int, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    rows: dict[int, dict[int, Mapping[str, Any]]] = {}
    for rank, updates in reported.items():
        for update in updates:
            _refuse_faults(rank, UPDATE_COLUMN_BY_NAME, update)
            of_ranks = rows.setdefault(int(update["update"]), {other: {} for other in reported})
            if of_ranks[rank]:
                raise ReduceError(f"rank {rank} reported update {update['update']} twice.")
            of_ranks[rank] = update
    columns = [column for column in UPDATE_COLUMNS if column.rule != "launch"]
    return [
        {column.name: _apply(column, of_ranks, f" of update {number}") for column in columns}
        for number, of_ranks in sorted(rows.items())
    ]


def _key(column: Column) -> str:
    return column.name if column.source is None else column.source


def _single(column: Column) -> Column:
    """Describe the one value behind a list of every rank's values."""
    kind: Any = column.kind.removeprefix("list<").removesuffix(">")
    return Column(_key(column), kind, column.unit, column.group, column.rule, column.sentence)


def _is_reported(column: Column, reported: Mapping[int, Mapping[str, Any]]) -> bool:
    if column.rule in _NOT_A_RANKS_BUSINESS:
        return False
    return any(_key(column) in values for values in reported.values())


def _refuse_faults(rank: int, columns: Mapping[str, Column], values: Mapping[str, Any]) -> None:
    faults = row_faults(columns, values)
    if faults:
        raise ReduceError(f"rank {rank} reported: " + "; ".join(faults) + ".")


def _apply(column: Column, reported: Mapping[int, Mapping[str, Any]], where: str) -> Any:
    """Apply one column's rule to the values of all ranks; `where` names the update in an error."""
    name = _key(column)
    if column.rule == "per_rank":
        return [reported[rank].get(name) for rank in sorted(reported)]
    if column.rule == "rank0":
        return reported.get(0, {}).get(name)
    if column.rule == "worst":
        return reported[_worst_rank(reported)].get(name)
    if column.rule == "sum":
        values = [of_rank.get(name) for of_rank in reported.values()]
        # A sum that lacks one rank is not a smaller sum, it is unknown.
        return None if any(value is None for value in values) else sum(values)
    if column.rule == "same":
        return _agreed(name, {rank: values[name] for rank, values in sorted(reported.items()) if name in values}, where)
    present = [value for value in (of_rank.get(name) for of_rank in reported.values()) if value is not None]
    return _COMBINE[column.rule](present) if present else None


def _worst_rank(reported: Mapping[int, Mapping[str, Any]]) -> int:
    """Find the rank with the largest peak; of equal ones the first, as when none knows its peak."""
    return max(sorted(reported), key=lambda rank: divided_bytes(reported[rank]) or 0)


def _agreed(name: str, value_of_rank: Mapping[int, Any], where: str) -> Any:
    """Return the one value of all ranks that got as far as reporting it."""
    values = list(value_of_rank.values())
    if not all(_is_equal(values[0], value) for value in values):
        listed = ", ".join(f"rank {rank}: {value!r}" for rank, value in value_of_rank.items())
        raise ReduceError(f"the ranks disagree on {name}{where}, which must be equal on all of them ({listed}).")
    return values[0] if values else None


def _is_equal(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left) and math.isnan(right):
        return True
    return bool(left == right)


def _largest(values: Sequence[Any]) -> Any:
    # Python's max() depends on the order of its arguments when one is nan; here nan always wins.
    return next((value for value in values if value != value), None) or max(values)


_COMBINE: dict[str, Callable[[Sequence[Any]], Any]] = {
    "max": _largest,
    "min": lambda values: next((value for value in values if value != value), None) or min(values),
    "any": any,
    "union": lambda lists: sorted({item for items in lists for item in items}),
}
