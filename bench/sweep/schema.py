"""The JSON schema of the sweep file, for editors: completion, hover texts and red underlines while writing.

`sweeps/schema.json` is this text, and a test keeps it fresh. It says less than `check` does: what settings rule out
together is not in it.
"""

from __future__ import annotations

import json
from typing import Any

from bench.sweep.fields import LARGEST_SEARCHED, SEARCHED_AXIS, SweepSpec
from bench.sweep.paths import field_paths

SCHEMA_TITLE = "Sweep file of bench"
"""By which the schema is known."""


def schema_text() -> str:
    """Write the JSON schema of a sweep file as indented text that ends with a newline."""
    schema = SweepSpec.model_json_schema()
    definitions = schema["$defs"]
    axes = {name: _axis(_field_schema(definitions, name)) for name in field_paths()}
    schema["properties"]["axes"].update(properties=axes, additionalProperties=False, minProperties=1)
    schema["oneOf"] = [{"required": ["axes"]}, {"required": ["trials"]}]
    fields = {name: _without_default(_field_schema(definitions, name)) for name in field_paths()}
    schema["properties"]["trials"]["items"].update(properties=fields, additionalProperties=False)
    search = {
        "type": "object",
        "description": "Find the largest that fits, at most this.",
        "properties": {"max": {"type": "integer", "minimum": 1, "maximum": LARGEST_SEARCHED}},
        "required": ["max"],
        "additionalProperties": False,
    }
    axes[SEARCHED_AXIS] = {"anyOf": [axes[SEARCHED_AXIS], search]}
    conditions: dict[str, Any] = {name: {} for name in axes}
    definitions["SkipRule"]["properties"]["when"].update(properties=conditions, additionalProperties=False)
    schema["title"] = SCHEMA_TITLE
    return json.dumps(schema, indent=2) + "\n"


def _axis(field: dict[str, Any]) -> dict[str, Any]:
    values = {key: value for key, value in field.items() if key not in {"default", "title", "description"}}
    axis = {"type": "array", "items": values, "minItems": 1, "uniqueItems": True}
    return axis | ({"description": field["description"]} if "description" in field else {})


def _without_default(field: dict[str, Any]) -> dict[str, Any]:
    """Leave out what holds only where base says nothing."""
    return {key: value for key, value in field.items() if key != "default"}


def _field_schema(definitions: dict[str, Any], dotted: str) -> dict[str, Any]:
    """Find the schema of one field, through the sections it is nested in."""
    section = definitions["TrialConfig"]
    *parents, last = dotted.split(".")
    for parent in parents:
        section = definitions[_reference(section["properties"][parent])]
    found: dict[str, Any] = section["properties"][last]
    return found


def _reference(field: dict[str, Any]) -> str:
    """Read the name of the definition that a section's field points to."""
    options = [field, *field.get("anyOf", [])]
    return next(str(option["$ref"]).rsplit("/", 1)[-1] for option in options if "$ref" in option)


if __name__ == "__main__":
    print(schema_text(), end="")  # noqa: T201 - the generator's output is the file
