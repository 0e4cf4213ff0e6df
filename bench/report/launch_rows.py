"""Rows of launches by columns: a column becomes Python values when it is first asked for.

A decision reads few of the columns, most of which hold few different values; making 100,000 dicts of all of them takes
longer than everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import pyarrow as pa

Row = Mapping[str, Any]


class LaunchRow(Mapping[str, Any]):
    """Look like the dict of one launch, and read the columns it shares with the others."""

    __slots__ = ("_columns", "_index")

    def __init__(self, columns: _Columns, index: int) -> None:
        self._columns = columns
        self._index = index

    def __getitem__(self, name: str) -> Any:
        """Give one value; raises KeyError for a column that is not there."""
        return self._columns[name][self._index]

    def get(self, name: str, default: Any = None) -> Any:
        """Give one value, or the default for a column that is not there."""
        try:
            return self._columns[name][self._index]
        except KeyError:
            return default

    def __iter__(self) -> Iterator[str]:
        """List the names of the columns."""
        return iter(self._columns.names)

    def __len__(self) -> int:
        """Count the columns."""
        return len(self._columns.names)


class LaunchRows(Sequence[Row]):
    """Hold launches as rows and as columns."""

    def __init__(self, columns: _Columns, places: Sequence[int] | None, rows: Sequence[Row]) -> None:
        self._columns = columns
        self._places = places
        self._rows = rows

    @classmethod
    def of_table(cls, table: pa.Table, **more: list[Any]) -> LaunchRows:
        """Take the columns of a table, and further columns of as many values."""
        columns = _Columns(table, [*more, *table.column_names])
        columns.update(more)
        return cls(columns, None, [LaunchRow(columns, index) for index in range(len(table))])

    def at(self, places: Sequence[int]) -> LaunchRows:
        """Give the rows at these places."""
        inner = places if self._places is None else [self._places[place] for place in places]
        return LaunchRows(self._columns, inner, [self._rows[place] for place in places])

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Row]: ...

    def __getitem__(self, place: int | slice) -> Row | Sequence[Row]:
        """Give one row, or a list of them."""
        return self._rows[place]

    def __iter__(self) -> Iterator[Row]:
        """Give the rows in order."""
        return iter(self._rows)

    def __len__(self) -> int:
        """Count the rows."""
        return len(self._rows)

    def column(self, name: str) -> list[Any]:
        """Give the values of a column; None in every row where the column is not there."""
        try:
            values = self._columns[name]
        except KeyError:
            return [None] * len(self._rows)
        return values if self._places is None else [values[place] for place in self._places]

    def distinct(self, name: str) -> set[Any]:
        """Give the different values of a column, at once where all launches share one."""
        values = self.column(name) if name not in self._columns.constant else self._columns[name][:1]
        return set(values) if self._rows else set()


def distinct_of(rows: Sequence[Row], name: str) -> set[Any]:
    """Give the different values of one column of any rows, None for missing; not of a list column."""
    return rows.distinct(name) if isinstance(rows, LaunchRows) else set(column_of(rows, name))


def column_of(rows: Sequence[Row], name: str) -> list[Any]:
    """Give one column of any rows, None for missing."""
    return rows.column(name) if isinstance(rows, LaunchRows) else [row.get(name) for row in rows]


def rows_at(rows: Sequence[Row], places: Sequence[int]) -> Sequence[Row]:
    """Give some rows of any rows, by columns where these are."""
    return rows.at(places) if isinstance(rows, LaunchRows) else [rows[place] for place in places]


class _Columns(dict[str, list[Any]]):
    """Turn a column of the table into Python values when it is first looked up."""

    def __init__(self, table: pa.Table, names: Sequence[str]) -> None:
        self._table = table
        self.names = tuple(names)
        self.constant: set[str] = set()
        """Columns read so far that hold one value only."""

    def __missing__(self, name: str) -> list[Any]:
        if name not in self.names:
            raise KeyError(name)
        self[name] = values = python_values(self._table.column(name))
        if values and values.count(values[0]) == len(values):
            self.constant.add(name)
        return values


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """Give the values of a column as Python has them; equal values of text and whole numbers are one object."""
    if not (pa.types.is_string(column.type) or pa.types.is_integer(column.type)):
        values: list[Any] = column.to_pylist()
        return values
    encoded = column.dictionary_encode()
    values = []
    for chunk in encoded.chunks:  # each may have a dictionary of its own
        known = [*chunk.dictionary.to_pylist(), None]
        if len(known) == 1 or (len(known) == 2 and chunk.null_count == 0):
            values += [known[0]] * len(chunk)
        else:
            places = chunk.indices.to_pylist()
            values += [known[-1 if place is None else place] for place in places]
    return values
