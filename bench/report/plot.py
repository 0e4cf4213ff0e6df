"""Draw memory against throughput, the figure a configuration is chosen by."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.errors import BenchError
from bench.record.atomic import write_atomically
from bench.report.frontier import pareto_frontier
from bench.report.plot_axes import set_axes
from bench.report.plot_marks import draw_frontier, draw_legend, draw_mode
from bench.report.plot_names import draw_names
from bench.report.plot_style import MODE_COLORS, RC
from bench.report.plot_words import facts, finding, footnotes, lines_of, second_finding, write_foot, write_head
from bench.report.points import Point, Row, points_of
from bench.report.select import group_by_outcome, rows_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_NAME = "memory_throughput"
_SIZE = (8.6, 6.2)
"""Width and height [inches]."""
_DPI = 160


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
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()  # nothing of the user's own settings in our figure
        mpl.rcParams.update(RC)
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


def _draw(points: Sequence[Point], rows: Sequence[Row]) -> Figure:
    frontier = [points[i] for i in pareto_frontier([(point.memory_bytes, point.speed) for point in points])]
    figure = Figure(figsize=_SIZE, dpi=_DPI)
    FigureCanvasAgg(figure)
    quiet = lines_of([second_finding(frontier), facts(rows)], 128)
    top = write_head(figure, lines_of([finding(frontier, len(points))], 78), quiet)
    bottom = write_foot(figure, lines_of(footnotes(rows, points), 130))
    axes = figure.add_axes((0.095, bottom, 0.88, top - bottom))
    size = set_axes(axes, points, rows)
    draw_frontier(axes, frontier, size)
    for mode in dict.fromkeys([*MODE_COLORS, *(point.amp_mode for point in points)]):
        draw_mode(axes, [point for point in points if point.amp_mode == mode], frontier, size)
    draw_legend(axes, points)
    draw_names(figure, axes, points, frontier, size)
    return figure
