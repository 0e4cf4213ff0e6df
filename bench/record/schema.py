"""Turn the registry of columns into parquet schemas, and refuse what was not written to them."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence

import pyarrow as pa

from bench.record.column_types import RULE_WORDS, Column
from bench.record.columns import COLUMNS, SCHEMA_VERSION
from bench.record.columns.updates import UPDATE_COLUMNS

VERSION_KEY = b"bench.schema_version"
"""Key of the schema version in a file's metadata."""

_ARROW_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    # Parquet calls the items of a list "element"; any other name would not survive the round trip.
    "list<string>": pa.list_(pa.field("element", pa.string())),
    "list<int64>": pa.list_(pa.field("element", pa.int64())),
    "list<float64>": pa.list_(pa.field("element", pa.float64())),
}


@functools.cache
def schema() -> pa.Schema:
    """Give the schema of `results.parquet`; each field carries its unit, rule and sentence."""
    return _schema_of(COLUMNS)


@functools.cache
def update_schema() -> pa.Schema:
    """Give the schema of `updates.parquet`; each field carries its unit, rule and sentence."""
    return _schema_of(UPDATE_COLUMNS)


@functools.cache
def bare(declared: pa.Schema) -> pa.Schema:
    """Give the same columns without their sentences, for parts: one row should not carry 50 KB of documentation."""
    fields = [field.remove_metadata() for field in declared]
    return pa.schema(fields, metadata={VERSION_KEY: declared.metadata[VERSION_KEY]})


def _schema_of(columns: Sequence[Column]) -> pa.Schema:
    metadata = {VERSION_KEY: str(SCHEMA_VERSION).encode(), b"pandas": _pandas_types(columns)}
    return pa.schema([_field(column) for column in columns], metadata=metadata)


def _pandas_types(columns: Sequence[Column]) -> bytes:
    """Tell pandas to read integers and bools that may be null as such.

    Without this a plain `pandas.read_parquet` makes floats of a column with one null, and 9007199254740993 bytes end
    in 2. The format is pandas' own: https://pandas.pydata.org/docs/development/developer.html
    """
    nullable = {"int64": "Int64", "bool": "boolean"}
    types = [
        {
            "name": column.name,
            "field_name": column.name,
            "pandas_type": column.kind,
            "numpy_type": nullable[column.kind],
            "metadata": None,
        }
        for column in columns
        if column.kind in nullable
    ]
    return json.dumps({"index_columns": [], "column_indexes": [], "columns": types, "pandas_version": "2.2.0"}).encode()


def _field(column: Column) -> pa.Field:
    facts = {"unit": column.unit or "", "across_ranks": RULE_WORDS[column.rule], "description": column.sentence}
    return pa.field(column.name, _ARROW_TYPES[column.kind], nullable=True, metadata=facts)
