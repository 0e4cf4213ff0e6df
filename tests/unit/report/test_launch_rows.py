"""Rows by columns look like dicts, and every decision comes out as it does from dicts."""

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.decide.recommend import Question, recommend
from bench.decide.recommend_output import recommendation_json
from bench.errors import BenchError
from bench.record.parquet_file import table_of_rows
from bench.record.schema import schema
from bench.report.configurations import configurations_of
from bench.report.launch_rows import LaunchRows, column_of, distinct_of, python_values, rows_at
from bench.report.launches import launches_of
from tests.planted import config, launches


def rows_of_columns(values):
    table = pa.table({"a": pa.array(values, pa.int64()), "b": pa.array([str(v) for v in values], pa.string())})
    return LaunchRows.of_table(table, source=[0] * len(values))


def test_a_row_is_a_mapping_of_its_columns():
    """get, subscripts, iteration and unpacking; an unknown column is missing, not an error of get."""
    row = rows_of_columns([1, None, 3])[1]
    assert dict(row) == {"source": 0, "a": None, "b": "None"}
    assert {**row} == dict(row)
    assert (row["b"], row.get("c"), row.get("c", 7), "a" in row, len(row)) == ("None", None, 7, True, 3)
    with pytest.raises(KeyError):
        row["c"]


def test_some_rows_are_rows_again():
    """Places, places of places, slices, and a column that is not there."""
    rows = rows_of_columns([10, 20, 30, 40])
    some = rows_at(rows_at(rows, [3, 1, 0]), [0, 2])
    assert [row["a"] for row in some] == column_of(some, "a") == [40, 10]
    assert [row["a"] for row in rows[1:3]] == [20, 30]
    assert column_of(some, "c") == [None, None]
    assert column_of([{"a": 1}, {}], "a") == [1, None]
    assert [distinct_of(rows, name) for name in ("a", "source", "c")] == [{10, 20, 30, 40}, {0}, {None}]
    assert [distinct_of(some, "a"), distinct_of(rows_at(rows, []), "source")] == [{40, 10}, set()]


@given(
    st.lists(st.none() | st.sampled_from(["x", "y", "zz"]), max_size=12),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=12),
    st.integers(0, 12),
)
def test_values_are_those_of_the_column(texts, numbers, cut):
    """However the column is chunked: exact, null is None."""
    for values, kind in ((texts, pa.string()), (numbers, pa.int64())):
        chunks = [pa.array(values[:cut], kind), pa.array(values[cut:], kind)]
        assert python_values(pa.chunked_array(chunks, kind)) == values


@st.composite
def any_results(draw):
    """Results as they come: failures, nulls, flags, proofs, several machines and problems, missing launches."""
    noise = random.Random(draw(st.integers(0, 10**9)))
    rare = lambda *values: noise.choice([None, None, None, *values])  # noqa: E731
    configs = [
        config(
            noise.choice([None, 900.0, 1000.0, 1010.0, 2000.0]),
            micro_batch_size=2 ** noise.randrange(6),
            peak_allocated_bytes=noise.choice([None, 0, 10**6, 10**8]),
            proof=rare("PASS", "FAIL"),
            alloc_retries=rare(0, 2),
            flags=noise.choice([[], [], ["throttled_hw"], ["spiky"]]),
            host_peak_rss_bytes=rare(90, 10),
            device_capacity_bytes=rare(100),
            cpu_model=noise.choice(["A"] * 12 + ["B"]),
            tail=noise.choice(["keep"] * 12 + ["drop"]),
        )
        for _ in range(noise.randint(1, 8))
    ]
    rows = launches(configs, noise.randint(1, 4), seed=noise.random())
    return [row for row in rows if noise.random() > 0.1] or rows


def answer(rows):
    try:
        return recommendation_json(recommend(rows, Question()))
    except BenchError as error:
        return str(error)


@settings(max_examples=150)
@given(any_results())
def test_decisions_are_those_of_plain_rows(rows):
    """The same configurations and the same answer, letter for letter, by columns and by dicts."""
    table = table_of_rows(rows, schema())
    fast, plain = launches_of(table), table.to_pylist()
    assert [(one.name, one.speeds, one.peak_bytes, one.fault) for one in configurations_of(fast)] == [
        (one.name, one.speeds, one.peak_bytes, one.fault) for one in configurations_of(plain)
    ]
    assert answer(fast) == answer(plain)
