"""Write the reference of a sweep file's keys as Markdown, from the fields; docs/sweep-file.md is this text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bench.sweep.fields import LARGEST_SEARCHED, SweepSpec

_HEAD = f"""# Keys of a sweep file

<!-- Generated from bench/sweep/fields.py by `python -m bench.sweep.docs > docs/sweep-file.md`. Do not edit. -->

A sweep file is YAML 1.2 without its machinery: anchors (`&`), aliases (`*`), merge keys (`<<`) and tags (`!`) are
refused, so that a file means what it shows.

Sections nest: `base: {{optimizer: {{lr: 1.0e-3}}}}`. In `axes`, `trials` and `when`, the same setting has a dotted
name: `axes: {{optimizer.lr: [1.0e-3, 3.0e-4]}}`. A file has either `axes` or `trials`.

Instead of a list, `axes: {{micro_batch_size: {{max: N}}}}`, with N from 1 to {LARGEST_SEARCHED:,}, searches for the
largest micro-batch that fits, among those that divide the global batch where that is given.

`bench init` writes a file to start from. `bench schema` prints the same for editors. `bench plan` shows what a file
would run.
"""


def docs_text() -> str:
    """Return the text of docs/sweep-file.md: one table per section of a sweep file."""
    schema = SweepSpec.model_json_schema()
    definitions = schema["$defs"]
    tables = [_table("The file", schema, definitions)]
    tables += _sections("base", definitions["TrialConfig"], definitions)
    tables.append(_table("`skip`, each entry", definitions["SkipRule"], definitions))
    tables.append(_table("`measure`", definitions["MeasureSpec"], definitions))
    return "\n".join([_HEAD, *tables])


def _sections(name: str, section: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[str]:
    """Write the table of a section and of all that are nested in it."""
    tables = [_table(f"`{name}`", section, definitions)]
    for key, field in section["properties"].items():
        inner = _section_of(field)
        if inner is not None:
            tables += _sections(f"{name}.{key}", definitions[inner], definitions)
    return tables


def _table(title: str, section: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    required = section.get("required", ())
    lines = [
        f"| `{key}` | {_takes(field)} | {'must be given' if key in required else _default(field)} | "
        f"{field.get('description') or definitions[_section_of(field) or ''].get('description', '')} |"
        for key, field in section["properties"].items()
    ]
    return f"## {title}\n\n| key | takes | default | meaning |\n| --- | --- | --- | --- |\n" + "\n".join(lines) + "\n"


def _default(field: Mapping[str, Any]) -> str:
    value = field.get("default")
    if isinstance(value, dict | list):
        return ""
    return f"`{json.dumps(value)}`" if value is not None else "null"


def _takes(field: Mapping[str, Any]) -> str:
    """Say which values a field takes, without the null of its default."""
    options: Sequence[Mapping[str, Any]] = field.get("anyOf", [field])
    return " or ".join(_kind(option) for option in options if option.get("type") != "null")


def _kind(option: Mapping[str, Any]) -> str:
    if "enum" in option or "const" in option:
        return ", ".join(f"`{json.dumps(value).strip(chr(34))}`" for value in option.get("enum", [option.get("const")]))
    if "$ref" in option:
        return "section"
    words = {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true` or `false`"}
    words |= {"array": "list", "object": "section"}
    limits = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    shown = [f"{sign} {option[key]:,.15g}" for key, sign in limits.items() if key in option]
    return " ".join([words[option["type"]], ", ".join(shown)]).strip()


def _section_of(field: Mapping[str, Any]) -> str | None:
    """Read the name of the definition that a section's field points to; None for a plain value or a list."""
    options = [field, *field.get("anyOf", [])]
    return next((str(option["$ref"]).rsplit("/", 1)[-1] for option in options if "$ref" in option), None)


if __name__ == "__main__":
    print(docs_text(), end="")  # noqa: T201 - the generator's output is the document
