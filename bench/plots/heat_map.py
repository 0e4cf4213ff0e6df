"""Draw speed by micro-batch and accumulation steps as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from bench.plots.figure import NothingToDraw, framed
from bench.plots.style import FAINT, INK, QUIET
from bench.report.configurations import Configuration, configurations_of
from bench.report.points import Row
from bench.report.problem import problems_of
from bench.report.work_rate import unit_words
from bench.sweep.names import value_words
from bench.units import counted, format_bytes, format_rate, short_number

_MODES = ("fp32", "tf32", "bf16", "fp16")
_MOST_PANELS = 4
_MOST_CELLS = 14
"""Rows and columns of one panel at most; the fastest are kept."""


@dataclass(frozen=True)
class Cell:
    """Hold one cell: the fastest configuration of its place, or how the place ended."""

    column: str
    """Label of its column: the micro-batch."""
    row: str
    """Label of its row: the accumulation steps, or mode and ranks."""
    steps: int
    """Accumulation steps."""
    speed: float | None
    """valid_tokens_per_s, all ranks; null when nothing of this place was ok."""
    peak_bytes: int | None
    """Peak allocated bytes of that configuration, worst rank."""
    outcome: str
    """ok, or the outcome of the place."""
    panel: str
    """Panel it belongs to; empty when there is only one."""


@dataclass(frozen=True)
class HeatMap:
    """Hold all cells and the order of their labels."""

    cells: tuple[Cell, ...]
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    panels: tuple[str, ...]
    """AMP modes, results, or both, side by side."""
    panels_left_out: tuple[str, ...]
    """Panels that find no room."""
    left_out: int
    """Rows and columns that are not drawn, all slower."""
    is_crowded: bool
    """Whether a cell stands for several configurations, of which it shows the fastest."""
    is_by_cut: bool
    """Whether a row is a mode and world size, since the global batch leaves one accumulation count per micro-batch."""


def heat_map(rows: Sequence[Row]) -> HeatMap:
    """Choose what to draw: micro-batch against accumulation, or against mode where that would be a diagonal.

    Raises:
        NothingToDraw: No row has a speed.
    """
    ones = [one for one in configurations_of(rows) if one.row.get("micro_batch_size") and _steps(one)]
    if not any(one.speed is not None for one in ones):
        raise NothingToDraw("heat-map: no row has a throughput.")
    sizes = {(one.row.get("world_size"), one.row["micro_batch_size"], _steps(one)) for one in ones}
    is_by_cut = len(sizes) == len({size[:2] for size in sizes})
    groups: dict[tuple[str, str, str], list[Configuration]] = {}
    for one in ones:
        groups.setdefault(_place(one, is_by_cut), []).append(one)
    cells = tuple(_cell(place, group) for place, group in groups.items())
    fast = sorted((cell for cell in cells), key=lambda cell: -(cell.speed or 0.0))
    columns = sorted(dict.fromkeys(cell.column for cell in fast), key=lambda label: _by_number(label))
    rows_ = sorted(dict.fromkeys(cell.row for cell in fast), key=lambda label: _by_number(label))
    keep_columns = set(list(dict.fromkeys(cell.column for cell in fast))[:_MOST_CELLS])
    keep_rows = set(list(dict.fromkeys(cell.row for cell in fast))[:_MOST_CELLS])
    seen = list(dict.fromkeys(cell.panel for cell in cells))
    panels = sorted(seen, key=lambda panel: (_mode_place(panel), seen.index(panel)))
    return HeatMap(
        tuple(cell for cell in cells if cell.column in keep_columns and cell.row in keep_rows),
        tuple(column for column in columns if column in keep_columns),
        tuple(row for row in rows_ if row in keep_rows),
        tuple(panels[:_MOST_PANELS]),
        tuple(panels[_MOST_PANELS:]),
        len(columns) - len(keep_columns) + len(rows_) - len(keep_rows),
        any(len(group) > 1 for group in groups.values()),
        is_by_cut,
    )


def draw(rows: Sequence[Row], _updates: Sequence[Row] = ()) -> Figure:
    """Draw the heat map of `heat_map(rows)`."""
    data = heat_map(rows)
    ok = [cell for cell in data.cells if cell.speed is not None and cell.panel in data.panels]
    best, worst = max(ok, key=lambda cell: cell.speed or 0.0), min(ok, key=lambda cell: cell.speed or 0.0)
    unit = unit_words(row for row in rows if row["outcome"] == "ok")
    title = f"Fastest: {_words(best, data)} at {format_rate(best.speed, unit)}"
    second = ""
    problems = len(problems_of([row for row in rows if row["outcome"] == "ok"]))
    if problems > 1:
        title = f"{problems} training problems: compare within each only"
    elif len(ok) > 1 and best.speed and worst.speed:
        times = f"{best.speed / worst.speed:.2g}"
        work = unit.removeprefix("valid ")
        second = f"The slowest, {_words(worst, data)}, takes {times} times as long for the same {work}"
    memory = "" if data.is_by_cut and len(data.rows) > 6 else ", peak allocated memory of the worst rank"
    steps = ", A = accumulation steps" if data.is_by_cut else ""
    notes = [f"In each cell: {unit}/s of all ranks (the colour){memory}{steps}. Empty: not measured."]
    if data.panels_left_out:
        notes.append(f"No room for the panels of {'; '.join(data.panels_left_out)}: choose with --where.")
    if data.left_out:
        notes.append(f"{data.left_out} slower rows or columns are not drawn.")
    if data.is_crowded:
        notes.append("Where several configurations share a cell, the fastest is shown.")
    figure, (left, bottom, width, height) = framed(title, second, rows, notes)
    low, high = float(worst.speed or 0.0), float(best.speed or 1.0)
    norm = Normalize(low if low < high else 0.0, high)
    gap = 0.025
    each = (width - gap * (len(data.panels) - 1)) / len(data.panels)
    for index, panel in enumerate(data.panels):
        axes = figure.add_axes(
            (left + 0.02 + index * (each + gap), bottom, each - 0.02, height + (0.02 if not panel else 0))
        )
        _draw_panel(axes, data, panel, norm, index == 0)
    return figure


def _draw_panel(axes: Axes, data: HeatMap, panel: str, norm: Normalize, is_first: bool) -> None:
    colors = mpl.colormaps["viridis"]
    crowded = len(data.columns) * len(data.panels) > 12
    size = 6.5 if crowded else 8.5
    for cell in data.cells:
        if cell.panel != panel:
            continue
        x, y = data.columns.index(cell.column), data.rows.index(cell.row)
        if cell.speed is None:
            axes.fill(
                [x - 0.48, x + 0.48, x + 0.48, x - 0.48],
                [y - 0.48, y - 0.48, y + 0.48, y + 0.48],
                facecolor="white",
                edgecolor=FAINT,
                hatch="////",
                linewidth=0.8,
            )
            axes.text(
                x,
                y,
                cell.outcome,
                ha="center",
                va="center",
                fontsize=size,
                color=QUIET,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
            )
            continue
        color = colors(float(norm(cell.speed)))
        axes.fill(
            [x - 0.48, x + 0.48, x + 0.48, x - 0.48],
            [y - 0.48, y - 0.48, y + 0.48, y + 0.48],
            facecolor=color,
            edgecolor="none",
        )
        ink = INK if 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2] > 0.5 else "white"
        rate = short_number(cell.speed)
        text = rate if crowded and len(data.panels) > 2 else f"{rate}\n{format_bytes(cell.peak_bytes)}"
        if data.is_by_cut:
            text = f"A = {cell.steps}\n{text}" if len(data.rows) <= 6 else f"{rate}, A = {cell.steps}"
        axes.text(x, y, text, ha="center", va="center", fontsize=size, color=ink, linespacing=1.35)
    axes.set_xlim(-0.5, len(data.columns) - 0.5)
    axes.set_ylim(-0.5, len(data.rows) - 0.5)
    axes.set_xticks(range(len(data.columns)), data.columns)
    axes.set_yticks(range(len(data.rows)), data.rows if is_first else [""] * len(data.rows))
    axes.grid(visible=False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if panel:
        axes.set_title(panel, fontsize=10.5, pad=6)
    axes.set_xlabel("micro-batch [sequences per rank]", labelpad=6)
    if is_first and not data.is_by_cut:
        axes.set_ylabel("accumulation steps [micro-batches per update]", labelpad=6)


def _place(one: Configuration, is_by_cut: bool) -> tuple[str, str, str]:
    """Give panel, row and column."""
    micro, steps, mode = one.row["micro_batch_size"], _steps(one), str(one.row.get("amp_mode"))
    folder = value_words(one.row, [name for name in one.extra_axes if name == "folder"])
    if not is_by_cut:
        return ", ".join([mode, *folder]), str(steps), str(micro)
    ranks = one.row.get("world_size") or 1
    suffix = f", {counted(ranks, 'rank')}" if "world_size" in one.extra_axes else ""
    return "".join(folder), mode + suffix, str(micro)


def _cell(place: tuple[str, str, str], group: Sequence[Configuration]) -> Cell:
    ok = [one for one in group if one.speed is not None]
    panel, row, column = place
    if not ok:
        return Cell(column, row, _steps(group[0]), None, None, str(group[0].row["outcome"]), panel)
    best = max(ok, key=lambda one: one.speed or 0.0)
    return Cell(column, row, _steps(best), best.speed, best.peak_bytes, "ok", panel)


def _words(cell: Cell, data: HeatMap) -> str:
    place = ", ".join(filter(None, (cell.row, cell.panel))) + "," if data.is_by_cut else cell.panel
    return f"{place} {cell.column}\u00a0\u00d7\u00a0{cell.steps}"


def _steps(one: Configuration) -> Any:
    return one.row.get("accumulation_steps")


def _mode_place(panel: str) -> int:
    mode = panel.split(",")[0]
    return _MODES.index(mode) if mode in _MODES else len(_MODES)


def _by_number(label: str) -> tuple[float, ...]:
    first = label.split(" ")[0].rstrip(",")
    if first in _MODES:
        ranks = next((int(word) for word in label.split() if word.isdigit()), 0)
        return (_MODES.index(first), ranks)
    return tuple(float(word) for word in label.split() if word.replace(".", "").isdigit()) or (99.0,)
