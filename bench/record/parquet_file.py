"""Read and write one table of ours as parquet bytes: declared schema, checksums, digest, versions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.errors import StorageError
from bench.record.columns import SCHEMA_VERSION
from bench.record.digest import table_digest
from bench.record.schema import VERSION_KEY

_DIGEST_KEY = b"bench.content_sha256"
_SOURCE_KEY = b"bench.made_from_sha256"


class UnknownColumns(ValueError):
    """Report columns that are not declared: the file is whole, but of another version."""


def encode_part(table: pa.Table) -> bytes:
    """Encode the small table of one launch; the journal holds the hash of the bytes, so they need no digest.

    For a single row the quick compression makes files no larger than the thorough one, in half the time.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, compression="snappy", write_page_checksum=True, use_dictionary=False, write_statistics=False
    )
    return bytes(sink.getvalue())


def encode_table(table: pa.Table, made_from: str = "") -> bytes:
    """Encode a table for users: documented fields, page checksums, a digest of the content, what it was made from."""
    digest = table_digest(table, SCHEMA_VERSION, made_from)
    metadata = {**table.schema.metadata, _DIGEST_KEY: digest.encode(), _SOURCE_KEY: made_from.encode()}
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(metadata), sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue())


def decode_part(content: bytes, schema: pa.Schema, path: Path) -> pa.Table:
    """Decode the bytes of a part, whose hash the caller has checked, to `schema`; raises like `decode_table`."""
    with damage_named(path):
        table, _ = _read(content, path)
        return conform(table, schema)


def decode_table(content: bytes, schema: pa.Schema, path: Path) -> pa.Table:
    """Decode parquet bytes to `schema`; a column that an older version lacks is null.

    Raises:
        StorageError: Names `path` and says whether the bytes are damaged, foreign, or of a newer version.
    """
    with damage_named(path):
        table, metadata = _read(content, path)
        _check_digest(table, metadata, path)
        return conform(table, schema)


def table_source(content: bytes, schema: pa.Schema, path: Path) -> str | None:
    """Say what an undamaged table of exactly this schema was made from; None for one of an older schema."""
    with damage_named(path):
        table, metadata = _read(content, path)
        _check_digest(table, metadata, path)
        return metadata[_SOURCE_KEY].decode() if table.schema.equals(schema, check_metadata=False) else None


def _read(content: bytes, path: Path) -> tuple[pa.Table, dict[bytes, bytes]]:
    file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
    metadata = file.schema_arrow.metadata or {}
    if VERSION_KEY not in metadata:
        raise StorageError(f"{path}: parquet, but not a results file of bench (no {VERSION_KEY.decode()} in it).")
    version = int(metadata[VERSION_KEY])
    if version > SCHEMA_VERSION:
        raise StorageError(
            f"{path}: schema_version {version} is newer than {SCHEMA_VERSION}, the newest this bench reads. "
            f"Use a newer bench."
        )
    # Threads cost more than they save on the one row of a part.
    return file.read(use_threads=file.metadata.num_rows > 1000), metadata


def _check_digest(table: pa.Table, metadata: Mapping[bytes, bytes], path: Path) -> None:
    source = metadata.get(_SOURCE_KEY, b"").decode()
    digest = table_digest(table, int(metadata[VERSION_KEY]), source)
    if metadata.get(_DIGEST_KEY, b"").decode() != digest:
        raise StorageError(f"{path}: damaged: its content does not match its checksum.")


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Bring a table written by this or an older version to `schema`; only what is declared may be in it."""
    if table.schema.equals(schema, check_metadata=False):
        return pa.Table.from_arrays(table.columns, schema=schema)
    unknown = sorted(set(table.column_names) - set(schema.names))
    if unknown:
        raise UnknownColumns(f"it has columns that this version does not know: {', '.join(unknown)}")
    present = set(table.column_names)
    columns = [
        table.column(field.name).cast(field.type) if field.name in present else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def table_of_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Make a table of the declared schema; a key that a row lacks is null.

    Text that is not valid Unicode (a traceback may quote any bytes) keeps its readable part: losing a row to a letter
    would be worse.
    """
    kind, plain = pa.struct(list(schema)), [dict(row) for row in rows]
    try:
        records = pa.array(plain, type=kind)  # at once: an array a column takes several times as long for one row
    except UnicodeEncodeError:
        records = pa.array([{name: _valid_text(value) for name, value in row.items()} for row in plain], type=kind)
    return pa.Table.from_arrays(records.flatten(), schema=schema)


def _valid_text(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_valid_text(item) for item in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


@contextlib.contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file makes pyarrow raise into a StorageError that names the file."""
    try:
        yield
    except UnknownColumns as error:
        raise StorageError(
            f"{path}: written by another version of bench: {error}. Read it with that version."
        ) from error
    # Damaged bytes surface as any of these: Arrow's own errors, OSError from thrift, bad UTF-8, absurd sizes.
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError, OverflowError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StorageError(f"{path}: damaged or not a results file: {text}") from error
