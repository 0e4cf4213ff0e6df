"""Draw the energy a valid token costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from bench.plots.figure import NothingToDraw, framed
from bench.plots.style import MODE_COLORS, OTHER_COLOR
from bench.report.configurations import configurations_of
from bench.report.points import Row

_COLUMN = "joules_per_valid_token"
_MOST_BARS = 18


def energies(rows: Sequence[Row]) -> list[tuple[str, str, float]]:
    """Give name, AMP mode and mean joules per valid token of each configuration that has them, least first."""
    found = []
    for one in configurations_of(rows):
        values = [launch.get(_COLUMN) for launch in one.launches if launch["outcome"] == "ok"]
        known = [float(value) for value in values if value is not None and math.isfinite(value) and value > 0]
        if known:
            found.append((one.name, str(one.row.get("amp_mode")), sum(known) / len(known)))
    return sorted(found, key=lambda item: item[2])


def draw(rows: Sequence[Row], _updates: Sequence[Row] = ()) -> Figure:
    """Draw one bar per configuration: joules per thousand valid tokens, all GPUs.

    Raises:
        NothingToDraw: No row has its energy.
    """
    found = energies(rows)
    if not found:
        raise NothingToDraw("energy: no row has it; it needs a GPU with a readable counter and 5 s of timed updates.")
    least, most = found[0], found[-1]
    title = f"{least[0]} needs the least energy: {1000 * least[2]:.3g} J per thousand valid tokens"
    second = f"{most[0]} needs {most[2] / least[2]:.2g} times as much" if len(found) > 1 else ""
    notes = ["Energy of all GPUs over the timed part, from their counters, without host, fans and cooling."]
    if len(found) > _MOST_BARS:
        notes.append(f"The {_MOST_BARS} lowest of {len(found)} are drawn.")
        found = found[:_MOST_BARS]
    figure, (left, bottom, width, height) = framed(title, second, rows, notes)
    shift = min(0.3, 0.0088 * max(len(name) for name, _, _ in found))
    axes = figure.add_axes((left - 0.07 + shift, bottom, width + 0.05 - shift, height + 0.03))
    places = list(range(len(found)))[::-1]
    colors = [MODE_COLORS.get(mode, OTHER_COLOR) for _, mode, _ in found]
    axes.barh(places, [1000 * joules for *_, joules in found], color=colors, height=0.7, zorder=3)
    for place, (*_, joules) in zip(places, found, strict=True):
        axes.annotate(
            f"{1000 * joules:.3g}",
            (1000 * joules, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
    axes.set_yticks(places, [name for name, _, _ in found])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlim(0, 1000 * found[-1][2] * 1.1)
    axes.set_ylim(-0.7, max(len(found) - 0.3, 2.3))
    axes.set_xlabel("energy per thousand valid tokens, all GPUs [J]", labelpad=6)
    return figure
