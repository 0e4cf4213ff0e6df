"""Place labels beside points so that they cover neither each other nor a point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Box = tuple[float, float, float, float]
"""left, bottom, right, top [pixels]"""


@dataclass(frozen=True)
class Label:
    """Hold a label that wants a place."""

    x: float
    """Point it belongs to [pixels]."""
    y: float
    """Point it belongs to [pixels]."""
    width: float
    """Size of its text [pixels]."""
    height: float
    """Size of its text [pixels]."""
    must: bool
    """Whether it may stand far from its point rather than be left out."""


def place_labels(labels: Sequence[Label], inside: Box, obstacles: Sequence[Box], unit: float) -> list[Box | None]:
    """Choose a box for each label, in the order given; None where there is no room.

    Tries eight directions at growing distances and takes the first free box, so the order of the labels is their rank.

    Args:
        labels: Labels, the most important first.
        inside: Area the boxes must stay in.
        obstacles: Boxes to keep clear, such as markers and the frontier.
        unit: Distance between a point and the nearest box [pixels].
    """
    taken = list(obstacles)
    places: list[Box | None] = []
    for label in labels:
        place = next((box for box in _candidates(label, unit) if _is_free(box, inside, taken)), None)
        places.append(place)
        if place is not None:
            taken.append(place)
    return places


def _candidates(label: Label, unit: float) -> list[Box]:
    """List boxes around the point, nearest first; above and below before the sides, where neighbours tend to be."""
    distances = (1.0, 1.8, 3.0, 4.5, 6.5, 9.0, 12.0, 16.0) if label.must else (1.0, 1.8)
    boxes = []
    for distance in distances:
        for angle in (90, 270, 0, 180, 45, 135, 315, 225):
            across, up = math.cos(math.radians(angle)), math.sin(math.radians(angle))
            center_x = label.x + across * (unit * distance + label.width / 2)
            center_y = label.y + up * (unit * distance + label.height / 2)
            boxes.append(_box(center_x, center_y, label.width, label.height))
    return boxes


def _box(center_x: float, center_y: float, width: float, height: float) -> Box:
    return (center_x - width / 2, center_y - height / 2, center_x + width / 2, center_y + height / 2)


def _is_free(box: Box, inside: Box, taken: Sequence[Box]) -> bool:
    if box[0] < inside[0] or box[1] < inside[1] or box[2] > inside[2] or box[3] > inside[3]:
        return False
    return not any(overlaps(box, other) for other in taken)


def overlaps(one: Box, other: Box) -> bool:
    """Say whether two boxes share an area."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
