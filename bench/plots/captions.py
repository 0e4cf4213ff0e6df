"""Say in words what the figure shows: its title, what all points share, what is missing."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from matplotlib.figure import Figure

from bench.plots.style import QUIET
from bench.report.points import Point, Row, absent_of, facts_of
from bench.units import format_bytes, format_rate, listed

_MOST_ABSENT = 4
"""Trials named per outcome in the note on what is not drawn."""
# A number and its unit stay on one line: textwrap does not break at a no-break space.
_DOT = "\u00a0\u00b7"


def finding(frontier: Sequence[Point], num_points: int) -> str:
    """Say which point is fastest, how fast, and in what memory."""
    best = frontier[-1]
    equal = sum(point.speed == best.speed and point.memory_bytes == best.memory_bytes for point in frontier) - 1
    ties = f" (and {equal} equal to it)" if equal else ""
    fastest = "fastest at " if num_points > 1 else ""
    return f"{best.name}{ties}: {fastest}{_speed(best)} using {_memory(best)}"


def second_finding(frontier: Sequence[Point]) -> str:
    """Say what half the memory costs in speed, which is what the frontier is for."""
    best = frontier[-1]
    small = [point for point in frontier if point.memory_bytes <= best.memory_bytes / 2]
    if not small:
        return ""
    share = f"{100 * small[-1].speed / best.speed:.0f}\u00a0%"
    return f"In half that memory or less: {small[-1].name} gives {share} of the speed using {_memory(small[-1])}"


def _speed(point: Point) -> str:
    return format_rate(point.speed, point.unit).replace(" ", "\u00a0")


def _memory(point: Point) -> str:
    return format_bytes(point.memory_bytes).replace(" ", "\u00a0")


def facts(rows: Sequence[Row]) -> str:
    """Say what a reader must know of all rows, in pieces that stay whole."""
    return f"{_DOT} ".join(fact.replace(" ", "\u00a0") for fact in facts_of(rows))


def footnotes(rows: Sequence[Row], points: Sequence[Point]) -> list[str]:
    """Explain labels, rings and bars, and name what is not drawn."""
    also = ", then other differences" if any("," in point.label for point in points) else ""
    what = f"Labels: micro-batch \u00d7 accumulation steps{also}."
    of_it = " of its training problem" if len({point.problem for point in points}) > 1 else ""
    notes = [f"{what} Ringed: on the Pareto frontier{of_it} (nothing is faster in as little memory)."]
    if any(point.fastest > point.slowest for point in points):
        notes[0] += " Points: work / seconds over all rounds; bars: slowest to fastest."
    for outcome, names in absent_of(rows).items():
        whole = [name.replace(" ", "\u00a0") for name in names]
        notes.append(f"Not drawn, {outcome} ({len(names)}): {listed(whole, _MOST_ABSENT, '; ')}.")
    return notes


def lines_of(texts: Sequence[str], width: int) -> list[str]:
    """Break texts into lines of about equal width [characters], three per text at most."""
    return [
        line.rstrip(_DOT) for text in texts for line in textwrap.wrap(text, width, max_lines=3, placeholder=" \u2026")
    ]


def write_head(figure: Figure, head: Sequence[str], quiet: Sequence[str]) -> float:
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


def write_foot(figure: Figure, foot: Sequence[str]) -> float:
    """Write notes at the bottom; return where the axes may begin [share of the height]."""
    height = 0.018
    for line in reversed(foot):
        figure.text(0.02, height, line, fontsize=8.5, color=QUIET, va="bottom")
        height += 0.029
    return height + 0.098
