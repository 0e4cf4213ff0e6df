"""The JSON schema is fresh, and says what the reader says."""

from __future__ import annotations

import json
from pathlib import Path

from bench.sweep.paths import field_paths
from bench.sweep.presets import PRESETS
from bench.sweep.schema import schema_text

SWEEPS = Path(__file__).parents[3] / "sweeps"


def test_the_committed_schema_is_fresh() -> None:
    """Regenerate it with: bench schema > sweeps/schema.json."""
    assert (SWEEPS / "schema.json").read_text(encoding="utf-8") == schema_text()


def test_every_field_and_axis_has_a_sentence() -> None:
    """An editor can show what each key means."""
    schema = json.loads(schema_text())
    for definition in [schema, *schema["$defs"].values()]:
        for name, field in definition["properties"].items():
            assert field.get("description", "").endswith((".", "null", "]", "source")), name


def test_every_field_can_be_an_axis_and_nothing_else_can() -> None:
    """Axes are completed by their dotted names, with the values of the field itself."""
    axes = json.loads(schema_text())["properties"]["axes"]
    assert set(axes["properties"]) == set(field_paths())
    assert axes["additionalProperties"] is False
    assert axes["properties"]["amp_mode"]["items"]["enum"] == ["fp32", "tf32", "bf16", "fp16"]
    assert axes["properties"]["model.preset"]["items"]["anyOf"][0]["enum"] == list(PRESETS)


def test_unknown_keys_are_marked_everywhere() -> None:
    """What the reader refuses, the editor underlines."""
    schema = json.loads(schema_text())
    for definition in [schema, *schema["$defs"].values()]:
        assert definition["additionalProperties"] is False
