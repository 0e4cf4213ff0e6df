"""Draw memory against throughput, the figure a configuration is chosen by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from bench.errors import BenchError
from bench.report.figure import framed, house_style, save
from bench.report.frontier import pareto_frontier
from bench.report.plot_axes import set_axes
from bench.report.plot_marks import draw_frontier, draw_legend, draw_mode, draw_wall
from bench.report.plot_names import draw_names
from bench.report.plot_style import MODE_COLORS
from bench.report.plot_words import finding, footnotes, second_finding
from bench.report.points import Point, Row, points_of
from bench.report.select import group_by_outcome, rows_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


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
    with house_style():
        return save(_draw(points, rows), out_dir, "memory_throughput")


def _draw(points: Sequence[Point], rows: Sequence[Row]) -> Figure:
    frontier = [points[i] for i in pareto_frontier([(point.memory_bytes, point.speed) for point in points])]
    title = finding(frontier, len(points))
    figure, room = framed(title, second_finding(frontier), rows, footnotes(rows, points))
    axes = figure.add_axes(room)
    size = set_axes(axes, points, rows)
    draw_wall(axes, points, rows, size)
    draw_frontier(axes, frontier, size)
    for mode in dict.fromkeys([*MODE_COLORS, *(point.amp_mode for point in points)]):
        draw_mode(axes, [point for point in points if point.amp_mode == mode], frontier, size)
    draw_legend(axes, points)
    draw_names(figure, axes, points, frontier, size)
    return figure
