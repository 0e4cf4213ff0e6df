"""Turn rows into the points of a plot: one per trial, result and kind of machine, its rounds summarised."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.report.cut_apart import cut_apart
from bench.report.launch_rows import Row as Row
from bench.report.machines import machine_keys
from bench.report.named_results import FOLDER
from bench.report.problem import numbers_of
from bench.report.text_table import axis_names, distinct
from bench.report.work_rate import speed_of, unit_words
from bench.sweep.names import IN_EVERY_NAME, clean, cut, value_words
from bench.sweep.names import name_of as name_of
from bench.units import counted, listed

_LONGEST_LABEL = 48
"""A label is cut beyond this [characters]."""


@dataclass(frozen=True)
class Point:
    """Hold one trial as a plot shows it."""

    memory_bytes: float
    """Largest peak_allocated_bytes of its rounds, worst rank [bytes]."""
    speed: float
    """Tokens / seconds over its rounds, the harmonic mean of their valid_tokens_per_s, all ranks, as everywhere."""
    slowest: float
    """Smallest valid_tokens_per_s of its rounds."""
    fastest: float
    """Largest valid_tokens_per_s of its rounds."""
    amp_mode: str
    """AMP mode, which gives colour and marker."""
    label: str
    """Micro-batch x accumulation, and whatever else tells the trials apart."""
    name: str
    """The same in words, for a sentence."""
    unit: str = "valid tokens"
    """What the speed counts, in words."""
    problem: int = 0
    """Number of its training problem: only points of one are alternatives to one another."""


def points_of(rows: Sequence[Row]) -> list[Point]:
    """Make one point of each trial that is ok and has both values; what lacks one is left out, never drawn as 0."""
    extra = extra_axes([row for row in rows if row["outcome"] == "ok"])
    by_trial: dict[tuple[Any, ...], list[Row]] = {}
    for row, machine in zip(rows, machine_keys(rows), strict=True):
        if row["outcome"] == "ok" and _drawable(speed_of(row)) and _drawable(row.get("peak_allocated_bytes")):
            by_trial.setdefault((row.get("folder"), row.get("sweep"), row["trial_id"], machine), []).append(row)
    firsts = [launches[0] for launches in by_trial.values()]
    labels = cut_apart([label_of(row, extra) for row in firsts], _LONGEST_LABEL)
    every = zip(by_trial.values(), labels, numbers_of(firsts), strict=True)
    return [_point(launches, extra, label, problem) for launches, label, problem in every]


def name_with(row: Row, extra: Sequence[str], **instead: Any) -> str:
    """Name a configuration with other values in place of some of its own, such as accumulation_steps."""
    return name_of({name: row.get(name) for name in (*IN_EVERY_NAME, *extra)} | instead, extra)


def label_of(row: Row, extra: Sequence[str] = ()) -> str:
    """Write "8 x 4" with a true multiplication sign, and the values of the extra axes."""
    first = f"{_word(row.get('micro_batch_size'))} \u00d7 {_word(row.get('accumulation_steps'))}"
    return ", ".join([first, *value_words(row, extra)])


def absent_of(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Name the trials that are not drawn, by outcome."""
    extra = extra_axes(rows)
    absent: dict[str, list[str]] = {}
    for row in rows:
        if row["outcome"] != "ok":
            names = absent.setdefault(row["outcome"], [])
            name = f"{_word(row.get('amp_mode'))} {cut(label_of(row, extra), _LONGEST_LABEL)}"
            if name not in names:
                names.append(name)
    return absent


def extra_axes(rows: Sequence[Row]) -> list[str]:
    """Name the columns that a name must tell besides AMP mode, micro-batch and accumulation."""
    # The global batch follows from the cut and the ranks, which are named.
    unsaid = (*IN_EVERY_NAME, "hostname", "global_batch_size", FOLDER.name)
    names = axis_names(rows)
    return [name for name in names if name not in unsaid] + [FOLDER.name] * (FOLDER.name in names)


def _drawable(value: Any) -> bool:
    return value is not None and math.isfinite(value) and value > 0


def _point(launches: Sequence[Row], extra: Sequence[str], label: str, problem: int) -> Point:
    speeds = [float(speed_of(row)) for row in launches]
    row = launches[0]
    words = [_word(row.get("amp_mode")), f"micro-batch {_word(row.get('micro_batch_size'))}"]
    words += value_words(row, extra)
    return Point(
        memory_bytes=float(max(row["peak_allocated_bytes"] for row in launches)),
        speed=statistics.harmonic_mean(speeds),
        slowest=min(speeds),
        fastest=max(speeds),
        amp_mode=_word(row.get("amp_mode")),
        label=label,
        name=", ".join(words),
        unit=unit_words(launches),
        problem=problem,
    )


def _word(value: Any) -> str:
    return "?" if value is None else clean(str(value))


def facts_of(rows: Sequence[Row]) -> list[str]:
    """List what a reader must know of all rows: model, batch, device, size, versions, machine, date."""
    drawn = [row for row in rows if row["outcome"] == "ok"]
    batches = "/".join(f"{value:,}" for value in distinct(drawn, "global_batch_size"))
    lengths = "/".join(f"{value:,}" for value in distinct(drawn, "seq_len"))
    ranks = distinct(drawn, "world_size")
    machine = distinct(drawn, "gpu_name") or distinct(drawn, "cpu_model") or distinct(drawn, "device")
    dates = sorted({str(value)[:10] for value in distinct(drawn, "started_utc")})
    facts = [
        cut(listed(list(map(str, distinct(drawn, "model"))), 3), 60),
        f"global batch {batches} sequences of up to {lengths} tokens" if batches else "",
        listed(list(map(str, machine)), 3),
        counted(ranks[0], "rank") if len(ranks) == 1 else "",
        counted(len(drawn), "launch"),
        " ".join(["torch", *distinct(drawn, "torch_version")]) if distinct(drawn, "torch_version") else "",
        listed(list(map(str, distinct(drawn, "hostname"))), 3),
        " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "",
    ]
    return [clean(fact) for fact in facts if fact]
