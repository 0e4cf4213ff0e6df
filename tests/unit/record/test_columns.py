"""The registry of columns: each described once, completely, without collisions."""

import pytest

from bench.record.column_types import RULE_WORDS, Column, row_faults, value_fault
from bench.record.columns import COLUMN_BY_NAME, COLUMNS, UPDATE_COLUMN_BY_NAME
from bench.record.columns.updates import UPDATE_COLUMNS

EVERY = [*COLUMNS, *UPDATE_COLUMNS]


def test_names_are_unique():
    """No column is declared twice in one table."""
    assert len(COLUMN_BY_NAME) == len(COLUMNS)
    assert len(UPDATE_COLUMN_BY_NAME) == len(UPDATE_COLUMNS)


@pytest.mark.parametrize("column", EVERY, ids=lambda column: column.name)
def test_a_column_has_a_sentence_and_a_known_rule(column):
    """Each column says what it is in one sentence, and how ranks become one value."""
    assert column.sentence.endswith(".")
    assert column.rule in RULE_WORDS


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_a_name_that_tells_a_unit_has_that_unit(column):
    """The suffix of a name and the declared unit agree."""
    name = column.name.removesuffix("_per_gpu").removesuffix("_per_rank")
    if name.endswith("_per_s"):
        thing = "FLOP" if "flops" in name else "token" if "token" in name else ""
        assert column.unit is not None
        assert column.unit.endswith(f"{thing}/second")
    elif name.endswith("_s") or "update_s_" in name:
        assert column.unit == "second"
    elif name.endswith("_bytes"):
        assert column.unit == "byte"


@pytest.mark.parametrize("column", [column for column in COLUMNS if column.rule == "per_rank"], ids=lambda c: c.name)
def test_a_list_over_ranks_names_its_source(column):
    """A per-rank list says under which name a rank reports its own value."""
    assert column.name == f"{column.source}_per_rank"
    assert column.kind.startswith("list<")


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("int64", [0, -1, 2**63 - 1, None], [1.0, True, "8", 2**63]),
        ("float64", [1, 2.5, float("nan"), None], ["1", True]),
        ("string", ["", "auto", None], [8, True]),
        ("bool", [True, None], [0, "true"]),
        ("list<int64>", [[], [1, None], None], [[1.5], 1, ["1"]]),
    ],
)
def test_a_value_that_does_not_fit_is_named_not_converted(kind, good, bad):
    """No value changes its type on the way into a column."""
    column = Column("thing", kind, None, "group", "launch", "A thing.")
    assert [value_fault(column, value) for value in good] == [None] * len(good)
    assert all("thing" in str(value_fault(column, value)) for value in bad)


def test_a_row_with_an_unknown_name_is_refused():
    """A misspelt column is a fault, not a value lost in silence."""
    assert row_faults(COLUMN_BY_NAME, {"outcome": "ok", "outcom": "ok"}) == ["outcom is not a declared column"]
