"""Tell what is trained from how it is trained: only what trains the same is an alternative to choose between.

Two configurations solve one training problem when they would make the same updates but for rounding. The columns of
PROBLEM must be equal for that; those of MANNER may differ, and are what a recommendation chooses: each field of
`sweep/fields.py` says which it is. `amp_mode` is of the manner, as the arithmetic of the same updates; `param_dtype` is
not, since weights stored in 16 bits lose small updates.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.report.launch_rows import Row, column_of, distinct_of, rows_at
from bench.sweep.names import NULL_MEANS, value_word
from bench.sweep.settings import SETTINGS

PROBLEM = tuple(dict.fromkeys(setting.column for setting in SETTINGS if setting.role == "what"))
"""Columns of the configuration that say what is trained."""
MANNER = tuple(dict.fromkeys(setting.column for setting in SETTINGS if setting.role == "how"))
"""Columns of the configuration that say how it is trained."""


@dataclass(frozen=True)
class Problem:
    """Hold one training problem among several."""

    name: str
    """What tells it from the others: "tail keep, lr 3e-4"; empty where there is only one."""
    conditions: tuple[str, ...]
    """Conditions `COLUMN OP VALUE` that select it."""
    rows: Sequence[Row]
    """The rows that solve it."""

    @property
    def options(self) -> str:
        """Write the conditions as options of a command."""
        return " ".join(f"--where {shlex.quote(condition)}" for condition in self.conditions)


def problem_columns(rows: Sequence[Row]) -> list[str]:
    """Name the columns in which rows differ in what is trained."""
    return [name for name in PROBLEM if len(_values(rows, name)) > 1]


def problems_of(rows: Sequence[Row]) -> list[Problem]:
    """Part rows by what is trained, in order of appearance."""
    columns = problem_columns(rows)
    if not columns:
        return [Problem("", (), rows)]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, key in enumerate(zip(*(column_of(rows, name) for name in columns), strict=True)):
        groups.setdefault(key, []).append(place)
    return [_problem(columns, key, rows_at(rows, places)) for key, places in groups.items()]


def numbers_of(rows: Sequence[Row]) -> list[int]:
    """Number the training problem of each row, from 0 in order of appearance."""
    columns = problem_columns(rows)
    numbers: dict[tuple[Any, ...], int] = {}
    keys = [tuple(row.get(name) for name in columns) for row in rows]
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def note_on_problems(rows: Sequence[Row]) -> str | None:
    """Say of a figure that holds several training problems that it offers no choice between them; None for one."""
    problems = problems_of([row for row in rows if row["outcome"] == "ok"])
    if len(problems) < 2:
        return None
    differ = ", ".join(condition.split(" ")[0] for condition in problems[0].conditions)
    return (
        f"{len(problems)} training problems in one figure, which differ in {differ}: compare within each only. Choose "
        f"one with {problems[0].options}."
    )


def _problem(columns: Sequence[str], key: Sequence[Any], rows: Sequence[Row]) -> Problem:
    words = [value_word(name, value) or f"{name} null" for name, value in zip(columns, key, strict=True)]
    conditions = [f"{name} == {'null' if value is None else value}" for name, value in zip(columns, key, strict=True)]
    return Problem(", ".join(words), tuple(conditions), rows)


def _values(rows: Sequence[Row], name: str) -> set[Any]:
    """Collect the values of a column; a missing one is a value only where null is a choice like any other."""
    values = distinct_of(rows, name)
    return values if name in NULL_MEANS or len(values - {None}) > 1 else values - {None}
