"""Write what the fields of a trial say of themselves as JSON: `bench/sweep/settings.json` is this text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from bench.sweep.fields import TrialConfig
from bench.sweep.marks import Constant, Mark, What
from bench.sweep.paths import section_of, value_at
from bench.sweep.settings import Setting
from bench.sweep.trial import show_value

_KINDS: dict[type, Literal["string", "int64", "float64", "bool"]] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
}


def settings_text() -> str:
    """Write every setting, a line each."""
    rows = [asdict(setting) for setting in settings_of_fields()]
    for row in rows:
        if row["equals"] is None:  # the rule
            del row["equals"]
    lines = ",\n".join(map(json.dumps, rows))
    return f"[\n{lines}\n]\n"


def settings_of_fields() -> list[Setting]:
    """Describe every setting of a trial, in the order of the fields.

    Raises:
        TypeError: A field does not say whether it changes what is trained or how; names it.
    """
    found = [entry for entry in _marked(TrialConfig, "") if not isinstance(entry[2], Constant)]
    columns = [mark.column or path.rsplit(".", 1)[-1] for path, _, mark in found]
    shared = {column for column, times in Counter(columns).items() if times > 1}
    return [_setting(*entry, column, column in shared) for entry, column in zip(found, columns, strict=True)]


def _marked(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo, Mark]]:
    """Walk the fields down to those that are marked, once a mark: what lies in a marked section belongs to it."""
    for name, field in model.model_fields.items():
        marks = [item for item in field.metadata if isinstance(item, Mark)]
        section = section_of(field)
        if marks:
            yield from ((prefix + name, field, mark) for mark in marks)
        elif section is not None:
            yield from _marked(section, f"{prefix}{name}.")
        else:
            raise TypeError(f"{prefix}{name} is marked neither What nor How: does it change what is trained?")


def _setting(path: str, field: FieldInfo, mark: Mark, column: str, is_shared: bool) -> Setting:
    is_section = section_of(field) is not None
    default = value_at(TrialConfig(), path)
    kind = _type_of(field.annotation)
    return Setting(
        path=path,
        column=column,
        flag=mark.flag or "--" + (path.rsplit(".", 1)[-1] if is_shared or mark.equals else column).replace("_", "-"),
        kind="bool" if mark.equals is not None else "string" if is_section else _KINDS[kind],
        unit=mark.unit,
        role="what" if isinstance(mark, What) else "how",
        null_means=mark.null_means,
        sentence=mark.sentence or field.description or "",
        choices=_choices(field.annotation),
        default=None if default is None else show_value(default),
        is_section=is_section,
        equals=mark.equals,
    )


def _type_of(annotation: Any) -> Any:
    """Find the plain type of a value: of a word its text, of an optional value the value's."""
    if get_origin(annotation) is Literal:
        return str
    inner = [part for part in get_args(annotation) if part is not NoneType]
    return _type_of(inner[0]) if inner else annotation


def _choices(annotation: Any) -> tuple[str, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next((found for part in get_args(annotation) if (found := _choices(part))), ())


if __name__ == "__main__":
    print(settings_text(), end="")  # noqa: T201 - the generator's output is the file
