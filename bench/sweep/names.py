"""Name a configuration: the one way in which tables, plots, progress lines and recommendations call it.

A name is read far from any heading, so each value says what it is: "bf16 weights", "tail keep", "lr 3e-4". The first
part is always AMP mode, micro-batch x accumulation steps; the rest is whatever else tells the configurations apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.sweep.settings import SETTINGS, columns_of

Row = Mapping[str, Any]
"""Values by the name of their column (docs/columns.md)."""

NULL_MEANS = {setting.column: setting.null_means for setting in SETTINGS if setting.null_means is not None} | {
    "measurement_version": "unknown measurement version"
}
"""Columns whose null is a choice like any other, and what it means."""

IN_EVERY_NAME = ("amp_mode", "micro_batch_size", "accumulation_steps")
"""What every name begins with."""

LONGEST_WORD = 30
"""One value in a name is cut beyond this [characters]."""

_PHRASES: dict[str, Callable[[str], str]] = {
    "folder": lambda value: f"in {value}",
    "param_dtype": lambda value: f"{value} weights",
    "rows": lambda value: f"{value} rows",
    "gradient_sync": lambda value: f"sync {value}",
    "window_mode": lambda value: f"{value} window",
    "optimizer_implementation": lambda value: f"{value} optimizer",
    "schedule": lambda value: f"{value} schedule",
    "lr_warmup_updates": lambda value: f"lr warm-up {value}",
    "sequences_per_epoch": lambda value: f"{value} sequences per epoch",
    "clip_norm": lambda value: f"clip {value}",
    "global_batch_size": lambda value: f"global batch {value}",
    # Values that need no word beside them.
    **dict.fromkeys(("model", "model_kind", "device", "data_source", "optimizer"), lambda value: value),
}


def name_of(row: Row, extra: Sequence[str] = ()) -> str:
    """Write "bf16 8 x 4, 2 ranks": AMP mode, micro-batch x accumulation steps, and the values of the extra columns."""
    first = (
        f"{_word(row.get('amp_mode'))} {_word(row.get('micro_batch_size'))} x {_word(row.get('accumulation_steps'))}"
    )
    return ", ".join([first, *value_words(row, extra)])


def value_words(row: Row, columns: Sequence[str]) -> list[str]:
    """Say the value of each column so that it is understood without a heading; what says nothing is left out.

    Names of results are never cut: long ones tend to differ at their ends.
    """
    words = [(column, value_word(column, row.get(column))) for column in columns]
    return [word if column == "folder" else cut(word, LONGEST_WORD) for column, word in words if word]


def value_word(column: str, value: Any) -> str:
    """Say one value so that it is understood without its heading; empty for what needs no word."""
    if value is None:
        return NULL_MEANS.get(column, "")
    if column == "reentrant_checkpointing":
        return "reentrant" if value else ""
    if isinstance(value, bool):
        return column.removeprefix("activation_").replace("_", " ") if value else ""
    if column == "world_size":
        return f"{value} rank{'' if value == 1 else 's'}"
    if column in ("cpu_threads_per_rank", "threads_per_rank"):
        return f"{value} thread{'' if value == 1 else 's'} per rank"
    text = clean(_number(value) if isinstance(value, int | float) else str(value))
    phrase = _PHRASES.get(column)
    return phrase(text) if phrase else f"{column.replace('_', ' ')} {text}"


def axis_columns(axis_values: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Give the column and the value of each axis of a sweep file, a section's keys apart: data.rows is rows."""
    found: dict[str, Any] = {}
    for path, value in axis_values:
        if isinstance(value, dict) and "." not in path and path != "micro_batch_size":
            found |= axis_columns([(f"{path}.{key}", item) for key, item in value.items()])
        else:
            shown = json.dumps(value) if isinstance(value, dict | list) else value
            found |= columns_of(path, shown) or {path.rsplit(".", 1)[-1]: shown}
    return found


def clean(text: str) -> str:
    """Make foreign text safe for one line of a terminal: no control characters, no line breaks."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def cut(text: str, length: int) -> str:
    """Cut a text beyond so many characters, which an ellipsis shows."""
    return text if len(text) <= length else text[: length - 1] + "\u2026"


def _number(value: float) -> str:
    """Write a number as people do: 1,024, 0.1, 3e-4; digits are kept, as they may tell two values apart."""
    if isinstance(value, int):
        return f"{value:,}"
    if value != 0 and abs(value) < 0.01:
        mantissa, exponent = f"{value:.11e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    return f"{value:.12g}"


def _word(value: Any) -> str:
    return "?" if value is None else clean(str(value))
