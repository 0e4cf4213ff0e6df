"""Name the points of the figure, as far as there is room."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.plots.labels import Box, Label, place_labels
from bench.plots.style import FAINT, INK, QUIET
from bench.report.points import Point

_MOST_NAMED = 40
"""Among more points only the frontier has names."""


def draw_names(
    figure: Figure, axes: Axes, points: Sequence[Point], frontiers: Sequence[Sequence[Point]], size: int
) -> None:
    """Label the frontiers first, fastest first, then the others while there is room."""
    frontier = [point for one in frontiers for point in one]
    texts = _merge_labels(points, frontier)
    if len(points) > _MOST_NAMED:
        texts = {point: text for point, text in texts.items() if point in frontier}
    ordered = sorted(texts, key=lambda point: (point not in frontier, -point.speed))
    pixels = figure.dpi / 72
    where: dict[Point, tuple[float, float]] = {}
    for point in points:
        x, y = axes.transData.transform((point.memory_bytes / size, point.speed))
        where[point] = (float(x), float(y))
    labels = []
    for point in ordered:
        text = figure.text(0, 0, texts[point], fontsize=9 if point in frontier else 8)
        extent = text.get_window_extent()
        text.remove()
        labels.append(Label(*where[point], extent.width + 3 * pixels, extent.height + 1.5 * pixels, point in frontier))
    area = axes.get_window_extent()
    inside = (area.x0 + 2 * pixels, area.y0 + 2 * pixels, area.x1 + 6 * pixels, area.y1 + 2 * pixels)
    marker = 5 * pixels
    obstacles: list[Box] = [(x - marker, y - marker, x + marker, y + marker) for x, y in where.values()]
    for point, (x, _) in where.items():
        low, high = axes.transData.transform([(1, point.slowest), (1, point.fastest)])[:, 1]
        obstacles.append((x - pixels, float(low), x + pixels, float(high)))
    for one in frontiers:
        obstacles += _line_boxes([where[point] for point in one], area.x1, pixels)
    for point, label, box in zip(ordered, labels, place_labels(labels, inside, obstacles, 6.5 * pixels), strict=True):
        if box is not None:
            _draw_label(axes, point, texts[point], label, box, point in frontier, pixels)


def _draw_label(axes: Axes, point: Point, text: str, label: Label, box: Box, on: bool, pixels: float) -> None:
    center = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
    gap = max(abs(center[0] - label.x) - label.width / 2, abs(center[1] - label.y) - label.height / 2)
    if gap > 14 * pixels:
        ends = axes.transData.inverted().transform([(label.x, label.y), center])
        axes.plot(ends[:, 0], ends[:, 1], color=FAINT, linewidth=0.8, zorder=1)
    x, y = axes.transData.inverted().transform(center)
    axes.text(
        x,
        y,
        text,
        ha="center",
        va="center",
        fontsize=9 if on else 8,
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
