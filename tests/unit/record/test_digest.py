"""The digest of a table sees every change of meaning, and only those."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.record.columns import COLUMNS
from bench.record.digest import table_digest
from bench.record.parquet_file import table_of_rows
from bench.record.schema import schema
from tests.strategies import ok_row, rows


@settings(max_examples=8)
@given(st.lists(rows(), max_size=3), st.integers(0, 3))
def test_chunks_slices_and_a_round_trip_leave_it_alone(some, cut):
    """However the same rows lie in memory or on disk, their digest is one."""
    table = table_of_rows(some, schema())
    stream = io.BytesIO()
    pq.write_table(table, stream)
    halves = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    expected = table_digest(table, 1, "x")
    assert table_digest(halves, 1, "x") == expected
    assert table_digest(pq.read_table(io.BytesIO(stream.getvalue())), 1, "x") == expected


OTHER = {"string": "other", "int64": 12345, "float64": 0.123, "bool": True}


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_a_change_in_any_column_shows(column):
    """Another value, a null, or a value moved between list items all give another digest."""
    inner = column.kind.removeprefix("list<").removesuffix(">")
    values = [OTHER[inner], None] if inner == column.kind else [[OTHER[inner]], [OTHER[inner], None], [], None]
    digests = {table_digest(table_of_rows([{**ok_row(), column.name: value}], schema()), 1, "") for value in values}
    assert len(digests) == len(values)


def test_text_moved_between_rows_shows():
    """Two strings that join to the same letters are not the same column."""
    tables = [table_of_rows([{"reason": one}, {"reason": two}], schema()) for one, two in (("ab", "c"), ("a", "bc"))]
    assert table_digest(tables[0], 1, "") != table_digest(tables[1], 1, "")


def test_version_and_source_show():
    """What a file claims about itself is guarded as well."""
    table = table_of_rows([ok_row()], schema())
    assert len({table_digest(table, 1, "a"), table_digest(table, 2, "a"), table_digest(table, 1, "b")}) == 3
