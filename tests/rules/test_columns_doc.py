"""docs/columns.md is the registry in words, and fresh."""

from pathlib import Path

from bench.record.columns import COLUMNS
from bench.record.columns.updates import UPDATE_COLUMNS
from bench.record.docs import docs_text

DOC = Path(__file__).parents[2] / "docs" / "columns.md"


def test_the_column_reference_is_fresh():
    """The committed page is what the registry says today."""
    assert DOC.read_text() == docs_text(), "run: python -m bench.record.docs > docs/columns.md"


def test_every_column_has_its_line():
    """No column is left out of the reference."""
    names = [line.split("`")[1] for line in docs_text().splitlines() if line.startswith("| `")]
    assert names == [column.name for column in (*COLUMNS, *UPDATE_COLUMNS)]
