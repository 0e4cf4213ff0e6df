"""Choose scale, limits and ticks of the two axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from bench.report.points import Point, Row
from bench.report.work_rate import short_unit, unit_words
from bench.units import byte_unit

_LOG_FROM = 20.0
"""Ratio of the largest to the smallest value from which an axis is logarithmic."""
_SHORT_FROM = 10_000
"""Ticks of an axis that reaches this are shortened: 20k, 1.2M."""


def set_axes(axes: Axes, points: Sequence[Point], rows: Sequence[Row]) -> int:
    """Set scales, ticks and labels; return the size of the memory axis' unit [bytes]."""
    memory = sorted(point.memory_bytes for point in points)
    is_log = memory[-1] > _LOG_FROM * memory[0]
    unit, size = byte_unit(memory[len(memory) // 2] if is_log else memory[-1])
    _scale(axes, "x", [value / size for value in memory])
    _scale(axes, "y", [value for point in points for value in (point.slowest, point.fastest)])
    ok = [row for row in rows if row["outcome"] == "ok"]
    methods = sorted({str(row["memory_method"]) for row in rows if row.get("memory_method")})
    how = f" ({', '.join(methods).replace('_', ' ')})" if methods else ""
    axes.set_xlabel(f"peak memory allocated in tensors, worst rank{how} [{unit}]", labelpad=6)
    axes.set_ylabel(f"{unit_words(ok)}, all ranks [{short_unit(ok)}/s]", labelpad=6)
    return size


def _scale(axes: Axes, which: str, values: Sequence[float]) -> None:
    low, high = min(values), max(values)
    axis = axes.xaxis if which == "x" else axes.yaxis
    set_scale: Callable[[str], None] = axes.set_xscale if which == "x" else axes.set_yscale
    set_limits: Callable[[float, float], Any] = axes.set_xlim if which == "x" else axes.set_ylim
    if high > _LOG_FROM * low:
        set_scale("log")
        pad = (high / low) ** 0.09
        set_limits(low / pad, high * pad)
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 2000 * low else (1,), numticks=20))
        axis.set_minor_locator(NullLocator())
    else:
        # At least a tenth of the value, so that equal points do not look far apart.
        pad = max(0.12 * (high - low), 0.05 * high)
        set_limits(max(0.0, low - pad), high + pad)
        axis.set_major_locator(MaxNLocator(nbins=7))
    axis.set_major_formatter(FuncFormatter(lambda value, _: rate_tick(value) if high >= _SHORT_FROM else _tick(value)))
    axis.set_minor_formatter(NullFormatter())


def rate_tick(value: float) -> str:
    """Write the label of a tick as short as it is exact: 25k, 1.2M."""
    for size, suffix in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"
