"""Draw memory against throughput, the figure a configuration is chosen by."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from bench.errors import BenchError
from bench.record.atomic import write_atomically
from bench.report.frontier import pareto_frontier
from bench.report.plot_labels import Box, Label, place_labels
from bench.report.plot_style import FAINT, INK, MODE_COLORS, MODE_MARKERS, OTHER_COLOR, OTHER_MARKER, QUIET, RC
from bench.report.points import Point, absent_of, facts_of, points_of
from bench.report.select import group_by_outcome, rows_of
from bench.units import byte_unit, format_bytes, format_rate

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_NAME = "memory_throughput"
_SIZE = (8.6, 6.2)
"""Width and height [inches]."""
_DPI = 160
_LOG_FROM = 20.0
"""Ratio of the largest to the smallest value from which an axis is logarithmic."""
_MOST_ABSENT = 4
"""Trials named per outcome in the note on what is not drawn."""


def plot_memory_throughput(frame: pd.DataFrame | pa.Table, out_dir: Path) -> list[Path]:
    """Draw one point per trial: peak allocated memory (worst rank) against valid tokens per second (all ranks).

    The frontier joins the trials that no other beats at both. Points are named micro-batch x accumulation steps, and
    by whatever else varies; a name that finds no room is left out, those of the frontier last. Trials that are not ok
    are listed below the figure. Axes are logarithmic where the values span more than a factor of 20.

    Args:
        frame: What `load_results` or `select_table` gave.
        out_dir: Folder for memory_throughput.png and .svg, made if need be; older ones are replaced.

    Returns:
        The two paths.

    Raises:
        BenchError: No row has both values.
        StorageError: The folder cannot be written.
    """
    rows = rows_of(frame)
    points = points_of(rows)
    if not points:
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in group_by_outcome(rows).items()) or "none"
        raise BenchError(
            f"nothing to draw: no row has outcome ok, a throughput and a peak memory (rows: {outcomes}). "
            f"`bench show` lists the reasons."
        )
    with mpl.rc_context(RC), warnings.catch_warnings():
        # A name in a script the font lacks is drawn as boxes; the table shows it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = _draw(points, rows)
        return [_save(figure, Path(out_dir), kind) for kind in ("png", "svg")]


def _save(figure: Figure, out_dir: Path, kind: str) -> Path:
    stream = io.BytesIO()
    # No date and no version in the file: the same rows give the same bytes.
    figure.savefig(stream, format=kind, dpi=_DPI, metadata={"Date": None} if kind == "svg" else {"Software": None})
    path = out_dir / f"{_NAME}.{kind}"
    write_atomically(path, stream.getvalue())
    return path


def _draw(points: Sequence[Point], rows: Sequence[dict[str, Any]]) -> Figure:
    mpl_frontier = pareto_frontier([(point.memory_bytes, point.speed) for point in points])
    frontier = [points[index] for index in mpl_frontier]
    figure = Figure(figsize=_SIZE, dpi=_DPI)
    FigureCanvasAgg(figure)
    head = _lines(_finding(frontier, len(points)), 74)
    quiet = [
        line
        for text in (_second_finding(frontier), " \u00b7 ".join(facts_of(rows)))
        if text
        for line in _lines(text, 104)
    ]
    foot = [line for text in _footnotes(rows) for line in _lines(text, 112)]
    top = _write_head(figure, head, quiet)
    bottom = _write_foot(figure, foot)
    axes = figure.add_axes((0.095, bottom, 0.88, top - bottom))
    size = _set_axes(axes, points, rows)
    _draw_frontier(axes, frontier, size)
    for mode in dict.fromkeys([*(mode for mode in MODE_COLORS), *(point.amp_mode for point in points)]):
        _draw_mode(axes, [point for point in points if point.amp_mode == mode], frontier, size)
    _draw_legend(axes, points)
    _draw_labels(figure, axes, points, frontier, size)
    return figure


def _finding(frontier: Sequence[Point], num_points: int) -> str:
    best = frontier[-1]
    fastest = "fastest at " if num_points > 1 else ""
    speed = format_rate(best.speed, "valid tokens")
    return f"{best.name}: {fastest}{speed} using {format_bytes(best.memory_bytes)}"


def _second_finding(frontier: Sequence[Point]) -> str:
    """Say what half the memory costs in speed, which is what the frontier is for."""
    best = frontier[-1]
    small = [point for point in frontier if point.memory_bytes <= best.memory_bytes / 2]
    if not small:
        return ""
    point = small[-1]
    share = f"{100 * point.speed / best.speed:.0f} %"
    return f"In half that memory or less: {point.name}, {share} of the speed using {format_bytes(point.memory_bytes)}"


def _footnotes(rows: Sequence[dict[str, Any]]) -> list[str]:
    notes = [
        "Labels: micro-batch \u00d7 accumulation steps. Line: no other configuration is as fast in as little memory."
    ]
    for outcome, names in absent_of(rows).items():
        more = f" and {len(names) - _MOST_ABSENT} more" if len(names) > _MOST_ABSENT else ""
        notes.append(f"Not drawn, {outcome} ({len(names)}): {', '.join(names[:_MOST_ABSENT])}{more}.")
    return notes


def _lines(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, max_lines=3, placeholder=" \u2026")


def _write_head(figure: Figure, head: Sequence[str], quiet: Sequence[str]) -> float:
    """Write title and facts from the top down; return where the axes may end [share of the height]."""
    height = 1 - 0.028
    for line in head:
        figure.text(0.02, height, line, fontsize=13, fontweight="bold", va="top")
        height -= 0.042
    height -= 0.004
    for line in quiet:
        figure.text(0.02, height, line, fontsize=9, color=QUIET, va="top")
        height -= 0.03
    return height - 0.052


def _write_foot(figure: Figure, foot: Sequence[str]) -> float:
    """Write notes at the bottom; return where the axes may begin [share of the height]."""
    height = 0.018
    for line in reversed(foot):
        figure.text(0.02, height, line, fontsize=8.5, color=QUIET, va="bottom")
        height += 0.029
    return height + 0.098


def _set_axes(axes: Axes, points: Sequence[Point], rows: Sequence[dict[str, Any]]) -> int:
    """Set scales, ticks and labels; return the size of the memory axis' unit [bytes]."""
    memory = sorted(point.memory_bytes for point in points)
    is_log = memory[-1] > _LOG_FROM * memory[0]
    unit, size = byte_unit(memory[len(memory) // 2] if is_log else memory[-1])
    _scale(axes, "x", [value / size for value in memory])
    _scale(axes, "y", [value for point in points for value in (point.slowest, point.fastest)])
    methods = sorted({str(row["memory_method"]) for row in rows if row.get("memory_method")})
    how = f", {', '.join(methods).replace('_', ' ')}" if methods else ""
    axes.set_xlabel(f"peak memory allocated in tensors, worst rank [{unit}]{how}", labelpad=6)
    axes.set_ylabel("valid tokens per second, all ranks", labelpad=6)
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
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1000 else f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _draw_frontier(axes: Axes, frontier: Sequence[Point], size: int) -> None:
    right = axes.get_xlim()[1]
    across = [*(point.memory_bytes / size for point in frontier), right]
    up = [*(point.speed for point in frontier), frontier[-1].speed]
    axes.plot(across, up, drawstyle="steps-post", color=QUIET, linewidth=1.1, zorder=2, solid_joinstyle="miter")


def _draw_mode(axes: Axes, points: Sequence[Point], frontier: Sequence[Point], size: int) -> None:
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


def _draw_legend(axes: Axes, points: Sequence[Point]) -> None:
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
    ring = {"marker": "o", "markerfacecolor": "white", "markeredgecolor": INK, "markeredgewidth": 1.3, "markersize": 8}
    handles.append(Line2D([], [], color=QUIET, linewidth=1.1, label="Pareto frontier", **ring))
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(-0.012, 1.0),
        ncols=len(handles),
        handletextpad=0.4,
        columnspacing=1.6,
        borderaxespad=0.2,
    )


def _draw_labels(figure: Figure, axes: Axes, points: Sequence[Point], frontier: Sequence[Point], size: int) -> None:
    """Label the frontier first, fastest first, then the others while there is room."""
    texts = _merge_labels(points, frontier)
    ordered = sorted(texts, key=lambda point: (point not in frontier, -point.speed))
    pixels = figure.dpi / 72
    where = {point: axes.transData.transform((point.memory_bytes / size, point.speed)) for point in points}
    labels = []
    for point in ordered:
        text = figure.text(0, 0, texts[point], fontsize=9 if point in frontier else 8)
        box = text.get_window_extent()
        text.remove()
        x, y = where[point]
        labels.append(Label(x, y, box.width + 3 * pixels, box.height + 1.5 * pixels, point in frontier))
    area = axes.get_window_extent()
    inside = (area.x0 + 2 * pixels, area.y0 + 2 * pixels, area.x1 + 6 * pixels, area.y1 + 2 * pixels)
    marker = 5 * pixels
    obstacles: list[Box] = [(x - marker, y - marker, x + marker, y + marker) for x, y in where.values()]
    obstacles += _line_boxes([where[point] for point in frontier], area.x1, pixels)
    for point, label, box in zip(ordered, labels, place_labels(labels, inside, obstacles, 6.5 * pixels), strict=True):
        if box is not None:
            _draw_label(axes, point, texts[point], label, box, point in frontier, pixels)


def _draw_label(axes: Axes, point: Point, text: str, label: Label, box: Box, on: bool, pixels: float) -> None:
    center = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
    gap = max(abs(center[0] - label.x) - label.width / 2, abs(center[1] - label.y) - label.height / 2)
    if gap > 14 * pixels:
        ends = axes.transData.inverted().transform([(label.x, label.y), center])
        axes.plot(ends[:, 0], ends[:, 1], color=FAINT, linewidth=0.8, zorder=1)
    spot = axes.transData.inverted().transform(center)
    axes.text(
        *spot,
        text,
        ha="center",
        va="center",
        fontsize=9 if on else 8,
        fontweight="medium" if on else "normal",
        color=INK if on else QUIET,
        zorder=6,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.75} if gap > 14 * pixels else None,
    )


def _merge_labels(points: Sequence[Point], frontier: Sequence[Point]) -> dict[Point, str]:
    """Give points that lie on one spot one label, with at most three names."""
    by_spot: dict[tuple[float, float], list[Point]] = {}
    for point in points:
        by_spot.setdefault((point.memory_bytes, point.speed), []).append(point)
    texts = {}
    for same in by_spot.values():
        names = list(dict.fromkeys(point.label for point in same))
        more = f" +{len(names) - 3}" if len(names) > 3 else ""
        first = next((point for point in same if point in frontier), same[0])
        texts[first] = " / ".join(names[:3]) + more
    return texts


def _line_boxes(corners: Sequence[Sequence[float]], right: float, pixels: float) -> list[Box]:
    """Cover the steps of the frontier with thin boxes, so that no label lies on the line."""
    boxes: list[Box] = []
    for index, (x, y) in enumerate(corners):
        next_x, next_y = corners[index + 1] if index + 1 < len(corners) else (right, y)
        boxes.append((x, y - pixels, next_x, y + pixels))
        boxes.append((next_x - pixels, min(y, next_y), next_x + pixels, max(y, next_y)))
    return boxes
