"""docs/sweep-file.md is the fields of a sweep file in words, and fresh."""

from pathlib import Path

from bench.sweep.docs import docs_text
from bench.sweep.fields import MeasureSpec, SweepSpec
from bench.sweep.paths import field_paths

DOC = Path(__file__).parents[2] / "docs" / "sweep-file.md"


def test_the_sweep_file_reference_is_fresh():
    """The committed page is what the fields say today."""
    assert DOC.read_text() == docs_text(), "run: python -m bench.sweep.docs > docs/sweep-file.md"


def test_every_key_has_its_line_with_a_meaning():
    """No key is left out, and none is without a sentence."""
    lines = [line.split(" | ") for line in docs_text().splitlines() if line.startswith("| `")]
    keys = {line[0].strip("| `") for line in lines}
    names = {name.rsplit(".", 1)[-1] for name in field_paths()}
    assert keys >= names | set(SweepSpec.model_fields) | set(MeasureSpec.model_fields)
    assert all(len(line[-1].strip(" |")) > 3 for line in lines)
