"""Draw memory against throughput, the figure a configuration is chosen by."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from bench.plots.axes import set_axes
from bench.plots.captions import finding, footnotes, second_finding
from bench.plots.figure import NothingToDraw, framed
from bench.plots.marks import draw_frontier, draw_legend, draw_mode, draw_wall
from bench.plots.point_names import draw_names
from bench.plots.style import MODE_COLORS
from bench.report.frontier import pareto_frontier
from bench.report.points import Point, Row, points_of
from bench.report.select import group_by_outcome


def draw(rows: Sequence[Row], _updates: Sequence[Row] = ()) -> Figure:
    """Draw one point per trial: peak allocated memory (worst rank) against valid tokens per second (all ranks).

    The frontier joins the trials that no other beats at both, one for each training problem. Points are named
    micro-batch x accumulation steps, and by whatever else varies; a name that finds no room is left out, those of the
    frontier last. Trials that are not ok are listed below the figure. Axes are logarithmic where the values span more
    than a factor of 20.

    Raises:
        NothingToDraw: No row has both values.
    """
    points = points_of(rows)
    if not points:
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in group_by_outcome(rows).items()) or "none"
        raise NothingToDraw(
            f"memory-throughput: no row is ok and has a throughput and a peak memory (rows: {outcomes}). "
            f"`bench show` lists the reasons."
        )
    frontiers = [_frontier([one for one in points if one.problem == number]) for number in _problems(points)]
    frontier = [point for one in frontiers for point in one]
    title, second = finding(frontier, len(points)), second_finding(frontier)
    if len(frontiers) > 1:
        title = f"{len(frontiers)} training problems: compare within each only"
        second = "One frontier for each: points of different problems train different things"
    figure, room = framed(title, second, rows, footnotes(rows, points))
    axes = figure.add_axes(room)
    size = set_axes(axes, points, rows)
    draw_wall(axes, points, rows, size)
    for one in frontiers:
        draw_frontier(axes, one, size)
    for mode in dict.fromkeys([*MODE_COLORS, *(point.amp_mode for point in points)]):
        draw_mode(axes, [point for point in points if point.amp_mode == mode], frontier, size)
    draw_legend(axes, points)
    draw_names(figure, axes, points, frontiers, size)
    return figure


def _problems(points: Sequence[Point]) -> list[int]:
    return sorted({point.problem for point in points})


def _frontier(points: Sequence[Point]) -> list[Point]:
    return [points[i] for i in pareto_frontier([(point.memory_bytes, point.speed) for point in points])]
