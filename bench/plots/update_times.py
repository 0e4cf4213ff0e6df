"""Draw how long each update took, launch by launch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from bench.plots.figure import NothingToDraw, framed
from bench.plots.style import COLORS, QUIET
from bench.report.configurations import Configuration, configurations_of
from bench.report.cut_apart import cut_apart
from bench.report.points import Row
from bench.units import format_seconds

_MOST = len(COLORS)
_LEGEND_COLUMNS = 3
_LEGEND_WIDTH, _LONGEST_NAME = 111, 90
"""Characters in a line of the legend, handles and gaps included, and in one name."""
_LOG_FROM = 6.0


@dataclass(frozen=True)
class Trace:
    """Hold the durations of one launch's updates."""

    configuration: Configuration
    """What was launched."""
    updates: tuple[int, ...]
    """Numbers of the updates that were timed one by one."""
    seconds: tuple[float, ...]
    """Duration of each, slowest rank [seconds]."""
    is_timed: tuple[bool, ...]
    """Whether each belongs to the timed part."""


def traces_of(rows: Sequence[Row], updates: Sequence[Row]) -> list[Trace]:
    """Join launches that are ok with the durations of their updates; what has none, or was witnessed, is left out."""
    by_launch: dict[tuple[Any, ...], list[Row]] = {}
    for update in updates:
        seconds = update.get("seconds") if update.get("phase") != "witness" else None
        if seconds is not None and math.isfinite(seconds) and seconds > 0 and update.get("update") is not None:
            by_launch.setdefault(_launch_of(update), []).append(update)
    traces = []
    for one in configurations_of(rows):
        for launch in one.launches:
            found = sorted(by_launch.get(_launch_of(launch), []), key=lambda update: update["update"])
            if launch["outcome"] == "ok" and found:
                traces.append(
                    Trace(
                        one,
                        tuple(update["update"] for update in found),
                        tuple(float(update["seconds"]) for update in found),
                        tuple(update.get("phase") == "timed" for update in found),
                    )
                )
    return traces


def _launch_of(row: Row) -> tuple[Any, ...]:
    """Give what a launch and its updates share; rows that do not say their source are of the only one."""
    return (row.get("source") or 0, row["trial_id"], row.get("round"), row.get("attempt"))


def draw(rows: Sequence[Row], updates: Sequence[Row]) -> Figure:
    """Draw the traces of the fastest configurations.

    Raises:
        NothingToDraw: No update was timed one by one.
    """
    traces = traces_of(rows, updates)
    if not traces:
        raise NothingToDraw("update-times: no ok launch has the times of its updates, or updates.parquet is missing.")
    ones = {id(trace.configuration): trace.configuration for trace in traces}
    fastest = sorted(ones.values(), key=lambda one: -(one.speed or 0.0))[:_MOST]
    best = fastest[0]
    notes = ["One line per launch (round). Strong: the timed part; pale: updates before or after it."]
    if len(ones) > _MOST:
        notes.append(f"The {_MOST} fastest of {len(ones)} configurations are drawn.")
    figure, (left, bottom, width, height) = framed(_title(best, traces), _second(best, traces), rows, notes)
    labels = dict(zip(map(id, fastest), cut_apart([one.name for one in fastest], _LONGEST_NAME), strict=True))
    columns = max(1, min(_LEGEND_COLUMNS, _LEGEND_WIDTH // (max(map(len, labels.values())) + 7)))
    legend_rows = -(-len(fastest) // columns)
    axes = figure.add_axes((left + 0.02, bottom, width - 0.02, height - 0.033 * (legend_rows - 1)))
    values: list[float] = []
    for one, color in zip(fastest, COLORS, strict=False):
        for number, trace in enumerate(trace for trace in traces if trace.configuration is one):
            values += trace.seconds
            axes.plot(trace.updates, trace.seconds, color=color, linewidth=0.9, alpha=0.3, zorder=2)
            timed = [
                (u, s) for u, s, is_timed in zip(trace.updates, trace.seconds, trace.is_timed, strict=True) if is_timed
            ]
            axes.plot(
                [u for u, _ in timed],
                [s for _, s in timed],
                color=color,
                linewidth=1.5,
                alpha=0.9,
                marker="o",
                markersize=2.6,
                zorder=3,
                label=labels[id(one)] if number == 0 else None,
            )
    if max(values) > _LOG_FROM * min(values):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(min(values) / 1.3, max(values) * 1.3)
    else:
        axes.set_ylim(0, max(values) * 1.08)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds_tick(value)))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("number of the update (0 starts from the initial weights)", labelpad=6)
    axes.set_ylabel("time of one update, slowest rank", labelpad=6)
    legend = axes.legend(
        loc="lower left", bbox_to_anchor=(-0.012, 1.0), ncols=columns, columnspacing=1.6, borderaxespad=0.2
    )
    for text in legend.get_texts():
        text.set_color(QUIET)
    return figure


def seconds_tick(seconds: float) -> str:
    """Write the label of a tick as short as it is exact: 20 ms, 1.5 s."""
    if seconds <= 0:
        return "0"
    for size, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size * (1 - 1e-9):
            return f"{seconds / size:g} {name}"
    return f"{seconds:g} s"


def _timed(one: Configuration, traces: Sequence[Trace]) -> list[float]:
    return [
        seconds
        for trace in traces
        if trace.configuration is one
        for seconds, is_timed in zip(trace.seconds, trace.is_timed, strict=True)
        if is_timed
    ]


def _title(one: Configuration, traces: Sequence[Trace]) -> str:
    timed = sorted(_timed(one, traces))
    if len(timed) < 2:
        return f"{one.name}: times of its updates"
    low, high = timed[int(0.05 * (len(timed) - 1))], timed[math.ceil(0.95 * (len(timed) - 1))]
    name = one.name.replace(" ", "\u00a0")
    between = f"{format_seconds(low)} and {format_seconds(high)}".replace(" ", "\u00a0")
    return (
        f"{name}: updates take {format_seconds(statistics.median(timed))} (median), 90\u00a0% of them between {between}"
    )


def _second(one: Configuration, traces: Sequence[Trace]) -> str:
    firsts = [trace.seconds[0] for trace in traces if trace.configuration is one and trace.updates[0] == 0]
    timed = _timed(one, traces)
    if not firsts or not timed:
        return ""
    ratio = statistics.median(firsts) / statistics.median(timed)
    return f"Its first update takes {ratio:.2g} times as long, so it is not counted" if ratio > 1.2 else ""
