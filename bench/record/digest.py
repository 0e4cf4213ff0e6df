"""Hash what a table says, so that a changed value is found wherever the file was damaged.

Page checksums guard the pages of a parquet file but not its footer, where a flipped bit can rename a column, change a
type or drop rows. The digest covers version, names, types, row count, nulls and values, and is stored in the file.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def table_digest(table: pa.Table, schema_version: int, made_from: str) -> str:
    """Return the SHA-256 of the table's meaning, as hexadecimal; compression, pages and file layout leave it alone."""
    digest = hashlib.sha256(f"{schema_version} {made_from} {table.num_rows}".encode())
    for name in table.column_names:
        column = table.column(name)
        digest.update(f"\0{name}\0{column.type}\0".encode())
        for part in _parts(column.combine_chunks()):
            digest.update(part)
    return digest.hexdigest()


def _parts(array: pa.Array) -> list[bytes]:
    """Give bytes that two arrays share only if they hold the same values and nulls."""
    if isinstance(array, pa.ChunkedArray):  # what combine_chunks gives for a column without rows in some versions
        array = pa.concat_arrays(array.chunks) if array.num_chunks else array.type.empty_array()
    nulls = _fixed_width(array.is_null())
    values = array.drop_null()
    if pa.types.is_list(array.type):
        return [nulls, _fixed_width(pc.list_value_length(values)), *_parts(values.flatten())]
    if pa.types.is_string(array.type):
        return [nulls, _fixed_width(pc.binary_length(values)), _text(values)]
    return [nulls, _fixed_width(values)]


# Array.to_numpy and pa.scalar import pandas, which takes as long as all of `bench show` may: read the buffers instead.


def _fixed_width(array: pa.Array) -> bytes:
    """Return the values of an array without nulls; a bool takes one byte."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    width = array.type.bit_width // 8
    return _slice(array.buffers()[1], array.offset * width, (array.offset + len(array)) * width)


def _text(array: pa.Array) -> bytes:
    """Return the UTF-8 of all strings of an array without nulls, one after the other."""
    if not len(array):
        return b""
    _, offsets, text = array.buffers()
    first, last = np.frombuffer(offsets, np.int32)[[array.offset, array.offset + len(array)]]
    return _slice(text, int(first), int(last))


def _slice(buffer: pa.Buffer | None, start: int, stop: int) -> bytes:
    return b"" if buffer is None else bytes(memoryview(buffer)[start:stop])
