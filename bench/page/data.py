"""Gather what the page shows: one entry per configuration, with its details."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.decide.recommend import Recommendation
from bench.page.chart import ChartPoint
from bench.record.columns import COLUMNS
from bench.report.configurations import Configuration
from bench.report.points import Row
from bench.report.problem import numbers_of
from bench.report.work_rate import unit_words
from bench.sweep.names import clean
from bench.units import cut_text, format_bytes, format_seconds, listed, short_number

_NOT_SHOWN = ("config_json", "environment_json", "schema_version")
_STANDING_WORDS = {"choice": "choice", "tie": "tie", "open": "not settled", "slower": "slower", "out": "out"}


@dataclass(frozen=True)
class PageRow:
    """Hold one configuration with its place in the answer."""

    id: str
    """Id within the page."""
    configuration: Configuration
    """The configuration."""
    standing: str
    """choice, tie, open, slower, out, or ok and the outcome where nothing could be recommended."""
    why: str
    """Why it was not chosen; empty for the choice."""


def page_rows(configurations: Sequence[Configuration], result: Recommendation | None) -> list[PageRow]:
    """Place configurations: the choice, ties, open ones, slower ones and the rest; without an answer by speed."""
    if result is not None:
        rows = [PageRow("c0", result.choice, "choice", "")]
        rows += [
            PageRow(f"c{index}", other.configuration, other.standing, other.why)
            for index, other in enumerate(result.others, start=1)
        ]
        return rows
    by_speed = sorted(configurations, key=lambda one: -(one.speed or 0.0))
    return [PageRow(f"c{i}", one, "ok" if one.speed else "out", one.fault or "") for i, one in enumerate(by_speed)]


def chart_points(rows: Sequence[PageRow]) -> list[ChartPoint]:
    """Give the points of the rows that have both values; a missing one is never drawn as 0."""
    problems = numbers_of([row.configuration.row for row in rows])
    return [
        ChartPoint(
            id=row.id,
            name=clean(one.name),
            mode=clean(str(one.row.get("amp_mode"))),
            memory_bytes=float(one.peak_bytes),
            speed=one.speed,
            unit=unit_words([one.row]),
            problem=problem,
            folder=clean(str(one.row.get("folder") or "")),
        )
        for row, problem in zip(rows, problems, strict=True)
        for one in [row.configuration]
        if one.speed is not None and one.peak_bytes is not None and one.peak_bytes > 0
    ]


def entry(row: PageRow) -> dict[str, Any]:
    """Give a row of the page as the script takes it: raw values to sort by, words to show."""
    one = row.configuration
    loss = next((launch.get("final_train_loss") for launch in one.launches if launch["outcome"] == "ok"), None)
    loss = loss if loss is not None and math.isfinite(loss) else None
    outcome = str(one.row["outcome"])
    words = _STANDING_WORDS.get(row.standing, row.standing)
    return {
        "id": row.id,
        "name": clean(one.name),
        "standing": row.standing,
        "standing_words": words if outcome == "ok" or row.standing != "out" else outcome,
        "speed": one.speed,
        "speed_words": short_number(one.speed),
        "peak": one.peak_bytes,
        "peak_words": format_bytes(one.peak_bytes),
        "loss": loss,
        "loss_words": "-" if loss is None else f"{loss:.4f}",
        "rounds": len(one.speeds) or None,
        "proof": one.row.get("proof"),
        "why": clean(row.why),
        "details": details(one.launches),
    }


def details(launches: Sequence[Row]) -> list[tuple[str, list[tuple[str, str]]]]:
    """List every column that has a value, by group; where launches differ, the value of each, joined by a slash."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for column in COLUMNS:
        if column.name in _NOT_SHOWN:
            continue
        values = [_words(column.unit, launch.get(column.name)) for launch in launches]
        if all(value is None for value in values):
            continue
        different = list(dict.fromkeys(value or "-" for value in values))
        shown = different[0] if len(different) == 1 else listed([value or "-" for value in values], 6, " / ")
        groups.setdefault(column.group, []).append((column.name, shown))
    return list(groups.items())


def _words(unit: str | None, value: Any) -> str | None:
    if value is None or value == []:
        return None
    if isinstance(value, list):
        return ", ".join(_words(unit, item) or "-" for item in value[:8]) + (" ..." if len(value) > 8 else "")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return cut_text(clean(value), 300)
    if unit == "byte":
        return f"{value:,} ({format_bytes(value)})" if value >= 1024 else f"{value:,}"
    if unit == "second":
        return format_seconds(value) if math.isfinite(value) else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
