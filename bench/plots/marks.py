"""Draw the frontier, the points and the legend."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from bench.plots.style import INK, MODE_COLORS, MODE_MARKERS, OTHER_COLOR, OTHER_MARKER, QUIET, WALL
from bench.report.points import Point, Row
from bench.units import format_bytes

_NEAR = 2.5
"""The capacity is drawn where it is at most this many times the largest peak."""


def draw_frontier(axes: Axes, frontier: Sequence[Point], size: int) -> None:
    """Join the frontier by steps: the speed that a given memory buys; `size` is the memory axis' unit [bytes]."""
    right = axes.get_xlim()[1]
    across = [*(point.memory_bytes / size for point in frontier), right]
    up = [*(point.speed for point in frontier), frontier[-1].speed]
    axes.plot(across, up, drawstyle="steps-post", color=QUIET, linewidth=1.1, zorder=2, solid_joinstyle="miter")


def draw_wall(axes: Axes, points: Sequence[Point], rows: Sequence[Row], size: int) -> None:
    """Draw the device's capacity where it is near: right of it everything is out of memory."""
    capacities = [row.get("device_capacity_bytes") for row in rows if row.get("device") == "cuda"]
    capacity = min((value for value in capacities if value), default=None)
    if capacity is None or capacity > _NEAR * max(point.memory_bytes for point in points):
        return
    axes.set_xlim(right=max(axes.get_xlim()[1], 1.04 * capacity / size))
    axes.axvline(capacity / size, color=WALL, linewidth=1.4, linestyle=(0, (4, 3)), zorder=2)
    axes.annotate(
        f"capacity {format_bytes(capacity)}",
        (capacity / size, 0.02),
        xycoords=("data", "axes fraction"),
        xytext=(-4, 0),
        textcoords="offset points",
        rotation=90,
        ha="right",
        va="bottom",
        fontsize=8.5,
        color=WALL,
    )


def draw_mode(axes: Axes, points: Sequence[Point], frontier: Sequence[Point], size: int) -> None:
    """Draw the points of one AMP mode; those on the frontier are ringed, the others pale."""
    for point in points:
        on = point in frontier
        memory = point.memory_bytes / size
        color = MODE_COLORS.get(point.amp_mode, OTHER_COLOR)
        if point.fastest > point.slowest:
            axes.vlines(memory, point.slowest, point.fastest, color=color, linewidth=1.2, alpha=0.6, zorder=3)
        axes.plot(
            [memory],
            [point.speed],
            linestyle="none",
            marker=MODE_MARKERS.get(point.amp_mode, OTHER_MARKER),
            markersize=8.5 if on else 7,
            color=color,
            alpha=1.0 if on else 0.55,
            markeredgecolor=INK if on else "white",
            markeredgewidth=1.3 if on else 0.8,
            zorder=5 if on else 4,
        )


def draw_legend(axes: Axes, points: Sequence[Point]) -> None:
    """List the AMP modes and the frontier above the axes."""
    modes = {point.amp_mode for point in points}
    order = [*(mode for mode in MODE_COLORS if mode in modes), *sorted(modes - MODE_COLORS.keys())]
    handles = [
        Line2D(
            [],
            [],
            linestyle="none",
            marker=MODE_MARKERS.get(mode, OTHER_MARKER),
            color=MODE_COLORS.get(mode, OTHER_COLOR),
            markersize=8,
            label=mode,
        )
        for mode in order
    ]
    line = Line2D([], [], color=QUIET, linewidth=1.1, marker="o", markersize=8, label="Pareto frontier")
    line.set(markerfacecolor="white", markeredgecolor=INK, markeredgewidth=1.3)
    handles.append(line)
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(-0.012, 1.0),
        ncols=len(handles),
        handletextpad=0.4,
        columnspacing=1.6,
        borderaxespad=0.2,
    )
