"""`bench schema`: the JSON schema on stdout."""

from __future__ import annotations

from click.testing import CliRunner

from bench.cli import main
from bench.sweep.schema import schema_text


def test_schema_prints_the_schema_and_nothing_else() -> None:
    """It can be redirected into a file as it is."""
    result = CliRunner().invoke(main, ["schema"])
    assert (result.exit_code, result.stdout, result.stderr) == (0, schema_text(), "")


def test_help_has_an_example() -> None:
    """Help is written to be pasted."""
    text = CliRunner().invoke(main, ["schema", "--help"]).stdout
    assert "  bench schema > schema.json\n" in text
