"""Find the largest micro-batch size that fits, in few probes: `micro_batch_size: {max: N}`.

Peak memory grows by nearly the same bytes with every sequence of a micro-batch, so two sizes give a line, and the line
predicts the limit. The limit and the next candidate are then tried, each in fresh processes. Where the line was wrong,
it is drawn again through what was measured since. A launch fits if its row says so, headroom included
(`bench.record.fit`). At A = 1 no gradients live at the peak of the activations, so a larger micro-batch can fit
although a smaller one at A >= 2 did not: the two classes are searched apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_SECOND_SIZE = 8
"""A size far enough from the first that the rounding of allocations does not tilt the line."""
_LINE_ERROR = 0.03
"""How far below a prediction that did not fit the next one is [share of the size]."""
_APART = 0.75
"""How much smaller the next point of a curve must be [share of the size]."""
_MOST_PROBES = 7


@dataclass(frozen=True)
class Probe:
    """State what one launch of one size showed."""

    fits: bool | None
    """None when it ended in a way that says nothing about memory."""
    taken_bytes: int | None = None
    """What it took of the device, worst rank."""
    limit_bytes: float | None = None
    """What it may take: the capacity of the smallest device less the headroom."""


def next_size(classes: Sequence[Sequence[int]], probes: Mapping[int, Probe]) -> int | None:
    """Give the size to try next; None when the largest that fits is known, or cannot be.

    Args:
        classes: sizes in growing order, apart by accumulation class.
        probes: what each size tried so far showed.
    """
    if any(probe.fits is None for probe in probes.values()):
        return None  # it failed for another reason, which larger ones would meet too
    for sizes in classes:
        size = _next_in_class(sizes, {size: probes[size] for size in sizes if size in probes})
        if size is not None:
            return size
    return None


def largest_that_fits(probes: Mapping[int, Probe]) -> int | None:
    """Give the largest size that fitted; None when none did."""
    return max((size for size, probe in probes.items() if probe.fits), default=None)


def _next_in_class(sizes: Sequence[int], probes: Mapping[int, Probe]) -> int | None:
    """Narrow the gap between the largest index that fits and the smallest that does not."""
    fitting = [index for index, size in enumerate(sizes) if size in probes and probes[size].fits]
    failing = [index for index, size in enumerate(sizes) if size in probes and not probes[size].fits]
    low, high = max(fitting, default=-1), min(failing, default=len(sizes))
    if high - low <= 1:
        return None
    if not probes:
        return sizes[0]
    if len(fitting) == 1 and not failing:
        return sizes[max(1, _index_at_most(sizes, _SECOND_SIZE))]
    return sizes[_within_reach(_guess(sizes, probes, low, high), low, high, _MOST_PROBES - len(probes))]


def _guess(sizes: Sequence[int], probes: Mapping[int, Probe], low: int, high: int) -> int:
    """Guess the largest index that fits, strictly between `low` and `high` where that is possible."""
    points = _points(probes)
    failed = sum(not probe.fits for probe in probes.values())
    if len(points) < 2 or points[0][1] <= points[1][1]:
        # Nothing to draw a line through: either no figures, or all below a floor that is not of the micro-batch.
        return max(low + 1, _index_at_most(sizes, _SECOND_SIZE * sizes[low])) if failed == 0 else (low + high) // 2
    limit = min(probe.limit_bytes for probe in probes.values() if probe.limit_bytes is not None)
    predicted = low
    while predicted + 1 < len(sizes) and _curve(points, sizes[predicted + 1]) <= limit:
        predicted += 1
    if predicted <= low:
        return low + 1
    halfway = _index_at_most(sizes, sizes[min(predicted, len(sizes) - 1)] / 2)
    if failed == 0 and len(probes) == 2 and halfway > low and sizes[halfway] * _APART >= sizes[low]:
        # The smallest size often peaks elsewhere, as in the optimizer's step: a second large one draws the real line.
        return halfway
    if predicted < high:
        return predicted
    if failed <= 1:
        return max(low + 1, min(high - 1, _index_at_most(sizes, sizes[high] * (1 - _LINE_ERROR))))
    return (low + high) // 2


def _within_reach(index: int, low: int, high: int, probes_left: int) -> int:
    """Move a guess so that halving can end the search within the probes left, where it still can."""
    half = 1 << max(0, probes_left - 1)
    if high - low - 1 >= 2 * half:
        return min(max(index, low + 1), high - 1)
    return min(max(index, low + 1, high - half), high - 1, low + half)


def _points(probes: Mapping[int, Probe]) -> list[tuple[int, int]]:
    """Pick up to three sizes with the bytes they took, largest first, far enough apart to draw a curve through."""
    measured = [(size, probe.taken_bytes) for size, probe in probes.items() if probe.fits and probe.limit_bytes]
    figures = sorted(((size, taken) for size, taken in measured if taken is not None), reverse=True)
    points = _apart(figures[:-1])  # the smallest size may lie on a floor
    return points if len(points) > 1 else _apart(figures)


def _apart(figures: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Keep up to three, each clearly smaller than the one before: neighbours would make a curve of their rounding."""
    points: list[tuple[int, int]] = []
    for size, taken_bytes in figures:
        if not points or size <= _APART * points[-1][0]:
            points.append((size, taken_bytes))
    return points[:3]


def _curve(points: Sequence[tuple[int, int]], size: float) -> float:
    """Give the bytes that a size takes by the line through two points, or the parabola through three (Newton)."""
    (x0, y0), (x1, y1) = points[:2]
    slope = (y0 - y1) / (x0 - x1)
    value = y0 + slope * (size - x0)
    if len(points) == 3:
        x2, y2 = points[2]
        bend = (slope - (y1 - y2) / (x1 - x2)) / (x0 - x2)
        value += bend * (size - x0) * (size - x1)
    return value


def _index_at_most(sizes: Sequence[int], limit: float) -> int:
    """Find the largest index whose size is at most `limit`; -1 when none is."""
    return sum(size <= limit for size in sizes) - 1
