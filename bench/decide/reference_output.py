"""Phrase a comparison with a reference machine: for people as a table, for programs as rows."""

from __future__ import annotations

from typing import Any

from bench.decide.reference import NORMAL_RANGE, ReferenceComparison, Shared
from bench.report.configurations import Configuration
from bench.report.points import Row
from bench.report.table import WIDEST, Format, render_rows, render_text
from bench.report.text_table import TextColumn, TextTable
from bench.report.work_rate import short_unit, unit_words
from bench.sweep.names import clean
from bench.units import counted, short_number, signed

_SETTINGS = (
    *("device", "model", "amp_mode", "world_size", "micro_batch_size", "accumulation_steps", "global_batch_size"),
    *("seq_len", "rows", "optimizer"),
)
REFERENCE_COLUMNS = (
    *("name", "trial_id", "reference_trial_id", *_SETTINGS),
    *("valid_tokens_per_s", "reference_valid_tokens_per_s", "valid_tokens_per_s_ratio"),
    *("valid_tokens_per_s_ratio_low", "valid_tokens_per_s_ratio_high", "rounds", "reference_rounds"),
    *("peak_allocated_bytes", "reference_peak_allocated_bytes", "peak_change_bytes", "reason"),
    *("valid_tokens_per_s_geometric_mean", "reference_valid_tokens_per_s_geometric_mean"),
)
"""Fields of a row for programs; docs/deciding.md explains them."""
_MACHINE = (
    *("hostname", "device", "gpu_name", "cpu_model", "cpu_count", "torch_version", "cuda_version", "driver_version"),
    *("python_version", "bench_version", "measurement_version", "threads_per_rank", "started_utc"),
)


def render_reference(
    comparison: ReferenceComparison,
    format: Format = "table",  # noqa: A002 - the option's name
    width: int = WIDEST,
    color: bool = False,
) -> str:
    """Render a comparison with a reference in any of the formats; what is said of the machine stands before the rows.

    CSV holds the rows alone.
    """
    if format == "csv" or format == "json":
        rows = [*map(_row, comparison.shared), *map(_lost_row, comparison.lost)]
        return render_rows(rows, REFERENCE_COLUMNS, format, _head(comparison))
    return render_text(_table(comparison), format, width, color)


def _head(comparison: ReferenceComparison) -> dict[str, Any]:
    return {
        "verdict": comparison.word,
        "forced": comparison.is_forced,
        "valid_tokens_per_s_ratio": comparison.ratio,
        "valid_tokens_per_s_ratio_low": comparison.ratio_low,
        "valid_tokens_per_s_ratio_high": comparison.ratio_high,
        "configurations": len(comparison.shared),
        "rounds": comparison.rounds_here,
        "reference_rounds": comparison.rounds_there,
        "reference": comparison.name,
        "reference_path": str(comparison.path),
        "same_hardware": comparison.is_like_hardware,
        "differences": list(comparison.differing),
        "machine": {name: comparison.here.get(name) for name in _MACHINE},
        "reference_machine": {name: comparison.there.get(name) for name in _MACHINE},
        "notes": list(comparison.notes),
    }


def _table(comparison: ReferenceComparison) -> TextTable:
    ones = comparison.shared
    names = [one.here.name for one in ones] + [one.name for one in comparison.lost]
    none = ("-",) * len(comparison.lost)
    unit = short_unit(one.here.row for one in ones)
    columns = (
        TextColumn("micro x accum", tuple(map(clean, names)), is_number=False),
        TextColumn(f"here {unit}/s", (*(short_number(one.here.speed) for one in ones), *none), is_number=True),
        TextColumn(f"reference {unit}/s", (*(short_number(one.there.speed) for one in ones), *none), is_number=True),
        TextColumn("ratio", (*(f"{one.ratio:.2f}" for one in ones), *none), is_number=True),
        TextColumn("95 % interval", (*(_interval(one.ratio_low, one.ratio_high) for one in ones), *none), True, keep=8),
        TextColumn("rounds", (*(_rounds(one) for one in ones), *none), is_number=True, keep=3),
        TextColumn("peak B", (*(signed(one.peak_change_bytes) for one in ones), *none), is_number=True, keep=6),
    )
    reasons = (*(None for _ in ones), *(clean(str(_why_lost(one))) for one in comparison.lost))
    return TextTable(clean(_title(comparison)), clean(_facts(comparison)), columns, reasons, tuple(_notes(comparison)))


def _title(comparison: ReferenceComparison) -> str:
    host = comparison.here.get("hostname") or "this machine"
    low, high = comparison.ratio_low, comparison.ratio_high
    interval = "" if low is None or high is None else f" ({_interval(low, high)})"
    verdict = {
        "slow": "SLOW for this hardware",
        "normal": "normal for this hardware",
        "fast": "not slow for this hardware: faster",
        "unclear": "unclear whether it is slow",
        "other hardware": "other hardware, so no verdict",
        "other software": "unclear: other software",
        "other threads": "unclear: other threads",
        "other method": "other measuring method, so no verdict",
    }[comparison.word]
    return f"{host} runs at {comparison.ratio:.2f} times the speed of {comparison.name}{interval}: {verdict}"


def _facts(comparison: ReferenceComparison) -> str:
    on = f"95 % interval over {counted(len(comparison.shared), 'shared configuration')}"
    if comparison.is_like_hardware:
        on += f"; slow: wholly below {1 - NORMAL_RANGE:.2f}"
    return f"{on}. Here: {_machine(comparison.here)}. Reference: {_machine(comparison.there)}"


def _machine(row: Row) -> str:
    cores = f", {row['cpu_count']} cores" if row.get("device") == "cpu" and row.get("cpu_count") else ""
    device = row.get("gpu_name") or row.get("cpu_model") or row.get("device") or "unknown"
    versions = [
        f"{name} {row[column]}"
        for name, column in (("torch", "torch_version"), ("driver", "driver_version"), ("bench", "bench_version"))
        if row.get(column)
    ]
    date = str(row.get("started_utc") or "")[:10]
    return ", ".join([f"{device}{cores}", *versions, *([date] if date else [])])


def _notes(comparison: ReferenceComparison) -> list[str]:
    notes = ["same hardware; " if comparison.is_like_hardware else "other hardware; "]
    notes[0] += "differences: " + "; ".join(comparison.differing) if comparison.differing else "no differences"
    here, there = comparison.rounds_here, comparison.rounds_there
    if comparison.ratio_low is None:
        notes.append(
            f"no interval: it takes 2 complete rounds of the shared configurations on both sides, and there are {here} "
            f"here and {there} there; measure 3 or more rounds (measure.rounds)"
        )
    else:
        notes.append(
            f"interval: {here} rounds here against {there} there, each averaged over the shared configurations; not "
            "paired, as they were measured at different times"
        )
    unit = unit_words(one.here.row for one in comparison.shared)
    notes.append(f"ratio: {unit}/s here / reference, all ranks; peak B: peak allocated bytes here - reference")
    return [clean(note) for note in (*notes, *comparison.notes)]


def _interval(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.2f} to {high:.2f}"


def _rounds(one: Shared) -> str:
    here, there = len(one.here.speeds), len(one.there.speeds)
    return str(here) if here == there else f"{here}, {there}"


def _why_lost(one: Configuration) -> str:
    return f"does not fit here ({one.fault})" if one.is_unfit else str(one.fault or "no throughput was measured here")


def _row(one: Shared) -> dict[str, Any]:
    return {
        "name": one.here.name,
        "trial_id": one.here.row["trial_id"],
        "reference_trial_id": one.there.row["trial_id"],
        **{name: one.here.row.get(name) for name in _SETTINGS},
        "valid_tokens_per_s": one.here.speed,
        "reference_valid_tokens_per_s": one.there.speed,
        "valid_tokens_per_s_geometric_mean": one.here.geometric_speed,
        "reference_valid_tokens_per_s_geometric_mean": one.there.geometric_speed,
        "valid_tokens_per_s_ratio": one.ratio,
        "valid_tokens_per_s_ratio_low": one.ratio_low,
        "valid_tokens_per_s_ratio_high": one.ratio_high,
        "rounds": len(one.here.speeds),
        "reference_rounds": len(one.there.speeds),
        "peak_allocated_bytes": one.here.peak_bytes,
        "reference_peak_allocated_bytes": one.there.peak_bytes,
        "peak_change_bytes": one.peak_change_bytes,
    }


def _lost_row(one: Configuration) -> dict[str, Any]:
    return {
        "name": one.name,
        "trial_id": one.row["trial_id"],
        **{name: one.row.get(name) for name in _SETTINGS},
        "rounds": 0,
        "reason": _why_lost(one),
    }
