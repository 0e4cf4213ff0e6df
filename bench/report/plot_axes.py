"""Choose scale, limits and ticks of the two axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from bench.report.points import Point, Row
from bench.units import byte_unit

_LOG_FROM = 20.0
"""Ratio of the largest to the smallest value from which an axis is logarithmic."""
_SUFFIXES = (("M", 1_000_000), ("k", 1000))
"""Tick labels are shortened from a hundred of these on."""


def set_axes(axes: Axes, points: Sequence[Point], rows: Sequence[Row]) -> int:
    """Set scales, ticks and labels; return the size of the memory axis' unit [bytes]."""
    memory = sorted(point.memory_bytes for point in points)
    is_log = memory[-1] > _LOG_FROM * memory[0]
    unit, size = byte_unit(memory[len(memory) // 2] if is_log else memory[-1])
    _scale(axes, "x", [value / size for value in memory])
    _scale(axes, "y", [value for point in points for value in (point.slowest, point.fastest)])
    methods = sorted({str(row["memory_method"]) for row in rows if row.get("memory_method")})
    how = f" ({', '.join(methods).replace('_', ' ')})" if methods else ""
    axes.set_xlabel(f"peak memory allocated in tensors, worst rank{how} [{unit}]", labelpad=6)
    axes.set_ylabel("valid tokens, all ranks [tokens/s]", labelpad=6)
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
    suffix, divisor = next(((name, size) for name, size in _SUFFIXES if high >= 100 * size), ("", 1))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value / divisor, suffix)))
    axis.set_minor_formatter(NullFormatter())


def _tick(value: float, suffix: str) -> str:
    text = f"{value:,.0f}" if value >= 1000 else f"{value:g}"
    return text + suffix if value else text
