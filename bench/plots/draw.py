"""Draw the figures a sweep can give; what cannot be drawn is said, figure by figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import BenchError
from bench.plots.energy import draw_energy
from bench.plots.figure import house_style, save
from bench.plots.heat_map import draw_heat_map
from bench.plots.memory_breakdown import draw_breakdown
from bench.plots.memory_throughput import plot_memory_throughput
from bench.plots.scaling import draw_scaling
from bench.plots.update_times import draw_update_times
from bench.report.select import rows_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_DRAW = {
    "heat-map": draw_heat_map,
    "scaling": draw_scaling,
    "memory-breakdown": draw_breakdown,
    "energy": draw_energy,
}
KINDS = ("memory-throughput", "heat-map", "scaling", "memory-breakdown", "update-times", "energy")
"""Kinds of figures, in the order they are drawn."""


def draw_plots(
    frame: pd.DataFrame | pa.Table, updates: Sequence[Mapping[str, Any]], out_dir: Path, kinds: Sequence[str] = KINDS
) -> tuple[list[Path], list[str]]:
    """Draw figures as PNG and SVG.

    Args:
        frame: What `select_table` or `load_results` gave.
        updates: Rows of `updates.parquet`; empty where there are none.
        out_dir: Folder for the figures; older ones of the same kinds are replaced.
        kinds: Some of `KINDS`.

    Returns:
        The paths, and a sentence for each kind that has nothing to draw.

    Raises:
        BenchError: None of the kinds has anything to draw; says why for each.
        StorageError: The folder cannot be written.
    """
    rows = rows_of(frame)
    paths: list[Path] = []
    notes: list[str] = []
    for kind in kinds:
        try:
            paths += _draw(kind, frame, rows, updates, out_dir)
        except BenchError as error:
            if error.exit_code != BenchError.exit_code:
                raise
            notes.append(str(error))
    if not paths:
        raise BenchError("\n".join(notes))
    return paths, notes


def _draw(
    kind: str,
    frame: pd.DataFrame | pa.Table,
    rows: Sequence[Mapping[str, Any]],
    updates: Sequence[Mapping[str, Any]],
    out_dir: Path,
) -> list[Path]:
    if kind == "memory-throughput":
        return plot_memory_throughput(frame, out_dir)
    with house_style():
        figure = draw_update_times(rows, updates) if kind == "update-times" else _DRAW[kind](rows)
        return save(figure, out_dir, kind.replace("-", "_"))
