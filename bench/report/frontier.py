"""Find the configurations that no other one beats at both memory and throughput."""

from __future__ import annotations

from collections.abc import Sequence


def pareto_frontier(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the indices of the points that are not dominated, by rising cost.

    A point (cost, gain) is dominated when another costs no more and gains no less, and is better in one of the two.
    Equal points do not dominate each other, so all of them are returned.
    """
    by_cost = sorted(range(len(points)), key=lambda index: (points[index][0], -points[index][1]))
    frontier: list[int] = []
    for index in by_cost:
        best = points[frontier[-1]] if frontier else None
        if best is None or points[index][1] > best[1] or points[index] == best:
            frontier.append(index)
    return frontier
