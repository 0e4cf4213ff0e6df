"""Rows of the user's files, one after the other: JSON Lines and parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bench.errors import BenchError

Kind = Literal["jsonl", "parquet"]

_OTHER_KINDS = {
    b"\x1f\x8b": "compressed by gzip: unpack it with gunzip",
    b"\x28\xb5\x2f\xfd": "compressed by zstd: unpack it with unzstd",
    b"\xfd7zXZ": "compressed by xz: unpack it with unxz",
    b"PK\x03\x04": "a zip archive: unpack it",
    b"PAR1": "a parquet file: name it by data.parquet",
}
"""How files begin that are no JSON Lines."""


@dataclass(frozen=True)
class Row:
    """Hold one row and its place."""

    where: str
    """File and row, in words for a message."""
    values: Mapping[str, Any]
    """Column to value; lists of numbers may be arrays."""


def read_rows(kind: Kind, path: Path, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Read the rows of one file in order, of parquet only some of its columns.

    Raises:
        BenchError: The file cannot be read, or a row is none.
    """
    if not path.stat().st_size:
        return
    if kind == "jsonl":
        yield from _jsonl(path)
    else:
        from bench.workload.data.parquet_rows import rows_of

        name = shown(path)
        for number, values in enumerate(rows_of(path, name, columns), 1):
            yield Row(f"{name}, row {number}", values)


def first_columns(kind: Kind, path: Path) -> tuple[str, list[str]] | None:
    """Name the place and the columns of a file's first row; null where it has none.

    Raises:
        BenchError: The file cannot be read, or its first row is none.
    """
    if kind == "parquet" and path.stat().st_size:
        from bench.workload.data.parquet_rows import columns_of

        names = columns_of(path, shown(path))
        return None if names is None else (shown(path), names)
    first = next(read_rows(kind, path), None)
    return None if first is None else (first.where, list(first.values))


def shown(path: Path) -> str:
    """Write a path as a person would from the current folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _jsonl(path: Path) -> Iterator[Row]:
    name = shown(path)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if number == 1:
                    _refuse_other_kind(name, line)
                if line.strip():
                    where = f"{name}:{number}"
                    yield Row(where, _json_object(where, line, number))
    except OSError as error:
        raise BenchError(f"{name} cannot be read: {error.strerror}. Fix its permissions.") from error


def _json_object(where: str, line: bytes, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except UnicodeDecodeError as error:
        raise BenchError(
            f"{where}: byte {error.start + 1} of the line is not UTF-8. Write the file in UTF-8."
        ) from error
    except RecursionError as error:
        raise BenchError(f"{where}: lists or objects are nested too deeply. Write the row flat.") from error
    except ValueError as error:
        begun = number == 1 and line.strip() in (b"{", b"[", b"[{")
        what = "one JSON text spread over lines" if begun else f"no JSON ({error})"
        advice = 'In JSON Lines each line is one whole object: {"text": "..."}.'
        raise BenchError(f"{where} is {what}. {advice}") from error
    if not isinstance(value, dict):
        kind = "one list of all rows" if number == 1 and isinstance(value, list) else kind_of(value)
        raise BenchError(f'{where} is {kind}, not an object. Write one object a line: {{"text": "..."}}.')
    return value


def _refuse_other_kind(name: str, begin: bytes) -> None:
    for mark, what in _OTHER_KINDS.items():
        if begin.startswith(mark):
            raise BenchError(f"{name} is {what}.")


def kind_of(value: Any) -> str:
    """Say what a value is, in words for a message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    names: dict[Any, str] = {str: "text", (int, float): "a number", (list, tuple): "a list", dict: "an object"}
    return next((words for kinds, words in names.items() if isinstance(value, kinds)), type(value).__name__)
