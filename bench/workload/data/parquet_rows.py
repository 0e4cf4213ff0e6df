"""Rows of a parquet file; pyarrow is loaded with this module, which others import only where they need it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from bench.errors import BenchError

_ROWS_AT_A_TIME = 1024


def rows_of(path: Path, name: str, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Read the rows of a file in order, only some of its columns; lists of whole numbers come as arrays.

    Args:
        path: The file.
        name: What messages call it.
        columns: Those that are read; null for all.

    Raises:
        BenchError: The file, or a part of it, cannot be read.
    """
    with _opened(path, name) as file:
        for batch in _reading(name, lambda: file.iter_batches(_ROWS_AT_A_TIME, columns=columns)):
            lists = {column: _values(batch.column(column)) for column in batch.schema.names}
            for position in range(batch.num_rows):
                yield {column: its[position] for column, its in lists.items()}


def columns_of(path: Path, name: str) -> list[str] | None:
    """Name the columns of a file; null where it has no row.

    Raises:
        BenchError: The file cannot be read.
    """
    with _opened(path, name) as file:
        return list(file.schema_arrow.names) if file.metadata.num_rows else None


def _reading(name: str, batches: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """Pass batches on; pages that cannot be unpacked are found only here."""
    try:
        yield from batches()
    except (OSError, pyarrow.ArrowException) as error:
        raise BenchError(f"{name} cannot be read as parquet: {_first_line(error)}. Copy or write it again.") from error


def _opened(path: Path, name: str) -> Any:
    try:
        return parquet.ParquetFile(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise BenchError(f"{name} cannot be read as parquet: {_first_line(error)}. Copy or write it again.") from error


def _values(column: Any) -> Sequence[Any]:
    """Give the values of a column; lists of whole numbers as arrays, which cost no object for each."""
    kind = column.type
    is_list = pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind)
    if not is_list or not pyarrow.types.is_integer(kind.value_type):
        return column.to_pylist()  # type: ignore[no-any-return]
    lists = [scalar.values for scalar in column]
    return [
        None if values is None else values.to_numpy() if values.null_count == 0 else values.to_pylist()
        for values in lists
    ]


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
