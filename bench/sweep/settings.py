"""Every setting of a trial as plain facts: what columns, names, options and training problems derive from.

`settings.json` is made from `fields.py` by `make docs`, and a test keeps it fresh: reading it takes a millisecond,
where building the fields' classes takes a tenth of a second of every command.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal


@dataclass(frozen=True)
class Setting:
    """State one setting of a trial."""

    path: str
    """Dotted name in a sweep file, such as data.rows; one may fill two columns."""
    column: str
    """Column of a row that holds it; several settings may share one, such as data_source."""
    flag: str
    """Option of `bench run`."""
    kind: Literal["string", "int64", "float64", "bool"]
    """Type of its values."""
    unit: str | None
    """Of the values, in the singular; null where there is none."""
    role: Literal["what", "how"]
    """Whether it says what is trained, or how."""
    null_means: str | None
    """What null stands for, where that is a choice like any other."""
    sentence: str
    """What it means, its values and its null."""
    choices: tuple[str, ...]
    """The words it takes; empty for numbers and free text."""
    default: str | None
    """Written as in a sweep file; null where there is none."""
    is_section: bool
    """Whether it has settings of its own, which no row and no option tells apart."""
    equals: str | None = None
    """The column says whether the setting is this word; null where it holds the setting itself."""


def _read() -> tuple[Setting, ...]:
    rows = json.loads((files("bench.sweep") / "settings.json").read_text(encoding="utf-8"))
    return tuple(Setting(**(row | {"choices": tuple(row["choices"])})) for row in rows)


SETTINGS = _read()
"""In the order of the fields."""

FLAG_OF = {setting.path: setting.flag for setting in reversed(SETTINGS)}


def columns_of(path: str, value: Any) -> dict[str, Any]:
    """Give the columns that a setting of this value fills: one for most, none where the name is no setting's."""
    return {setting.column: _column_value(setting, value) for setting in SETTINGS if setting.path == path}


def _column_value(setting: Setting, value: Any) -> Any:
    if value is None:
        return None
    if setting.equals is not None:
        return value == setting.equals
    return bool(value) if setting.kind == "bool" else value
