"""Choose and phrase what a person wants to read of a table of results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.gpus import why_no_bf16_peak
from bench.record.bytes_only import is_bytes_only
from bench.record.columns import COLUMNS
from bench.report.launch_rows import Row, distinct_of
from bench.report.named_results import FOLDER, SHOWN_BY_NAME
from bench.report.select import group_by_outcome
from bench.report.work_rate import speed_of, unit_words
from bench.sweep.names import NULL_MEANS, clean
from bench.units import byte_unit, counted

_SHORT = {
    "world_size": "ranks",
    "global_batch_size": "global batch",
    "valid_tokens_per_s": "valid tokens/s",
    "updates_applied": "updates applied",
    "final_train_loss": "train loss",
}
_NOT_AN_AXIS = ("micro_batch_size", "accumulation_steps", "model_kind", "config_json")
_AXES = (
    FOLDER.name,
    "sweep",
    "hostname",
    "measurement_version",
    *(column.name for column in COLUMNS if column.rule == "config"),
)
_CAPTION = (
    "model",
    "device",
    "gpu_name",
    "amp_mode",
    "world_size",
    "global_batch_size",
    "seq_len",
    "rows",
    "data_source",
    "optimizer",
)


@dataclass(frozen=True)
class TextColumn:
    """Hold one column as people see it."""

    header: str
    """Heading, with the unit where there is one."""
    cells: tuple[str, ...]
    """One text per row; "-" for missing."""
    is_number: bool
    """Whether to align it right, and to give its place to the reason of a row that is not ok."""
    keep: int = 9
    """How late to drop it when there is no room: the smallest goes first."""


@dataclass(frozen=True)
class TextTable:
    """Hold a whole table as people see it, before it is laid out."""

    title: str
    """What the rows are, and how they ended."""
    constants: str
    """What all rows share."""
    columns: tuple[TextColumn, ...]
    """Columns from left to right."""
    reasons: tuple[str | None, ...]
    """Per row: what to show instead of numbers; None to show the numbers."""
    notes: tuple[str, ...]
    """What the headings mean."""


def default_table(rows: Sequence[Row]) -> TextTable:
    """Phrase the default table: axes that vary, throughput, memory, updates and loss; others' reason instead."""
    columns = [axis_column(rows, name) for name in axis_names(rows)]
    columns.append(TextColumn("micro x accum", _cuts(rows), is_number=False))
    if len(distinct(rows, "round")) > 1:
        columns.append(axis_column(rows, "round"))
    ok = [row if row["outcome"] == "ok" else {} for row in rows]
    columns += [
        _speed_column(ok),
        *([value_column(ok, "mfu", keep=3)] if any(row.get("mfu") is not None for row in ok) else []),
        value_column(ok, "peak_allocated_bytes", "peak"),
        value_column(ok, "updates_applied", keep=2),
        value_column(ok, "final_train_loss", keep=1, decimals=4),
    ]
    if any(row.get("flags") for row in ok):
        flags = tuple(clean(", ".join(row.get("flags") or [])) for row in ok)
        columns.append(TextColumn("flags", flags, is_number=False, keep=3))
    return TextTable(
        title=_title(rows),
        constants=_constants(rows),
        columns=tuple(columns),
        reasons=tuple(_reason(row) for row in rows),
        notes=_notes(rows) if any(ok) else (),
    )


def _speed_column(ok: Sequence[Row]) -> TextColumn:
    """Phrase how fast work was done, in the unit of the loss."""
    found = [row for row in ok if row]
    header = f"{unit_words(found)}/s"
    return value_column([{"units_per_s": speed_of(row)} for row in ok], "units_per_s", header)


def chosen_table(rows: Sequence[Row], names: Sequence[str]) -> TextTable:
    """Phrase exactly the columns asked for, whatever the outcome."""
    columns = tuple(value_column(rows, name, name) for name in names)
    return TextTable(_title(rows), "", columns, (None,) * len(rows), ())


def axis_names(rows: Sequence[Row]) -> list[str]:
    """Name the configuration columns that take more than one value, micro-batch and accumulation aside.

    The threads that torch used are named where they differ although none, or the same number, were asked for.
    """
    names = [name for name in _AXES if name not in _NOT_AN_AXIS and _varies(rows, name)]
    return names + ["threads_per_rank"] * _threads_vary_within_a_trial(rows)


def _threads_vary_within_a_trial(rows: Sequence[Row]) -> bool:
    if len(distinct_of(rows, "threads_per_rank") - {None}) < 2:
        return False
    first: dict[Any, Any] = {}
    return any(
        row["threads_per_rank"] != first.setdefault(row["trial_id"], row["threads_per_rank"])
        for row in rows
        if row.get("threads_per_rank") is not None and row.get("device") == "cpu" and row["outcome"] == "ok"
    )


def _varies(rows: Sequence[Row], name: str) -> bool:
    values = distinct_of(rows, name)
    return len(values if name in NULL_MEANS else values - {None}) > 1


def distinct(rows: Sequence[Row], name: str) -> list[Any]:
    """List the different values of a column in order of appearance, missing ones left out."""
    return list(dict.fromkeys(row[name] for row in rows if row.get(name) is not None))


def axis_column(rows: Sequence[Row], name: str) -> TextColumn:
    """Phrase a column that tells rows apart; its values are shortened only as far as they stay apart."""
    values = [row.get(name) for row in rows]
    cells = [_exact(value) for value in values]
    if SHOWN_BY_NAME[name].kind == "float64":
        short = [cell if value is None else f"{value:.4g}" for cell, value in zip(cells, values, strict=True)]
        cells = short if len(set(short)) == len(set(cells)) else cells
    is_number = SHOWN_BY_NAME[name].kind in ("int64", "float64")
    # Numbers that tell rows apart stand left of the reason, which takes the place of results only.
    header = _SHORT.get(name, name.replace("_", " "))
    keep = 9 if name == FOLDER.name else 8 if name in _CAPTION else 5
    return TextColumn(header, _right(cells) if is_number else tuple(cells), is_number=False, keep=keep)


def value_column(
    rows: Sequence[Row], name: str, header: str | None = None, keep: int = 9, decimals: int | None = None
) -> TextColumn:
    """Phrase a column of values: bytes in the unit that fits the largest, thousands separated."""
    column = SHOWN_BY_NAME[name]
    values = [row.get(name) for row in rows]
    header = header or _SHORT.get(name, name)
    if column.kind not in ("int64", "float64"):
        return TextColumn(header, tuple(_exact(value) for value in values), is_number=False, keep=keep)
    if column.unit == "byte":
        unit, size = byte_unit(max((abs(value) for value in values if value is not None), default=0))
        header, values = f"{header} {unit}", [None if value is None else value / size for value in values]
        decimals = 0 if size == 1 else decimals
    elif column.kind == "int64":
        decimals = 0
    return TextColumn(header, _numbers(values, decimals), is_number=True, keep=keep)


def _exact(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return clean(", ".join(_exact(item) for item in value)) or "-"
    return f"{value:,}" if isinstance(value, int) else clean(str(value))


def _cuts(rows: Sequence[Row]) -> tuple[str, ...]:
    """Align "8 x 16" on its x."""
    pairs = [(_exact(row.get("micro_batch_size")), _exact(row.get("accumulation_steps"))) for row in rows]
    left = max((len(micro) for micro, _ in pairs), default=0)
    right = max((len(steps) for _, steps in pairs), default=0)
    return tuple(f"{micro:>{left}} x {steps:<{right}}" for micro, steps in pairs)


def _right(cells: Sequence[str]) -> tuple[str, ...]:
    width = max(map(len, cells), default=0)
    return tuple(cell.rjust(width) for cell in cells)


def _numbers(values: Sequence[Any], decimals: int | None) -> tuple[str, ...]:
    """Write numbers with equal decimals: enough for three digits of the smallest, at most four."""
    sizes = [abs(value) for value in values if value is not None and math.isfinite(value) and value != 0]
    if decimals is None:
        decimals = min(4, max(0, 2 - math.floor(math.log10(min(sizes))))) if sizes else 0
    return tuple(_number(value, decimals) for value in values)


def _number(value: Any, decimals: int) -> str:
    if value is None:
        return "-"
    return f"{value:,.{decimals}f}" if math.isfinite(value) else str(value)


def _reason(row: Row) -> str | None:
    if row["outcome"] == "ok":
        return None
    return clean(f"{row['outcome']}: {row['reason']}" if row.get("reason") else str(row["outcome"]))


def _title(rows: Sequence[Row]) -> str:
    if not rows:
        return "no rows"
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in group_by_outcome(rows).items())
    sweeps = ", ".join(distinct(rows, "sweep"))
    return f"{clean(sweeps)}: {counted(len(rows), 'row')} ({outcomes})".removeprefix(": ")


def _constants(rows: Sequence[Row]) -> str:
    shared: list[str] = []
    for name in _CAPTION:
        values = distinct(rows, name)
        if len(values) == 1:
            label = _SHORT.get(name, name)
            shared.append(_PHRASE.get(name, lambda text, label=label: f"{label} {text}")(_exact(values[0])))
    return ", ".join(shared)


_PHRASE: dict[str, Callable[[str], str]] = {
    "model": lambda text: text,
    "device": lambda text: text,
    "gpu_name": lambda text: text,
    "amp_mode": lambda text: text,
    "world_size": lambda text: f"{text} rank{'' if text == '1' else 's'}",
    "rows": lambda text: f"{text} rows",
    "data_source": lambda text: text,
    "optimizer": lambda text: text,
}


def _notes(rows: Sequence[Row]) -> tuple[str, ...]:
    methods = ", ".join(distinct(rows, "memory_method"))
    bytes_alone = ["stand-in GPU: bytes, counts and errors alone; no speed, loss or energy"]
    return (
        *_what_speed_is(rows),
        *(["mfu: model FLOP/s / the GPU's dense bf16 peak, in every AMP mode"] if distinct(rows, "mfu") else []),
        *_why_no_mfu(rows),
        f"peak: most bytes allocated in tensors, worst rank{f' ({methods})' if methods else ''}",
        *(bytes_alone if any(map(is_bytes_only, rows)) else []),
    )


def _what_speed_is(rows: Sequence[Row]) -> list[str]:
    """Say what the speed counts."""
    words = unit_words([row for row in rows if row["outcome"] == "ok"])
    said = {
        "valid tokens": "valid tokens/s: all ranks, timed part, without padding",
        "examples": "examples/s: all ranks, timed part",
        "units of weight": "units of weight/s: the weights of targets, all ranks, timed part",
    }
    return [said.get(words, "units/s: of each row's own unit, all ranks, timed part: they do not compare")]


def _why_no_mfu(rows: Sequence[Row]) -> list[str]:
    """Say of each GPU whose speed is known why it has no mfu: its peak in bf16 is that of no unit, or not known."""
    fast = [row for row in rows if row["outcome"] == "ok" and speed_of(row) is not None]
    without = [row for row in fast if row.get("gpu_name") and row.get("mfu") is None]
    reasons = {name: why_no_bf16_peak(name) for name in sorted({str(row["gpu_name"]) for row in without})}
    return [f"mfu: none, since {name} {reason}" for name, reason in reasons.items() if reason is not None]
