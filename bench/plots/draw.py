"""Draw the figures a sweep can give; what cannot be drawn is said, figure by figure."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import BenchError
from bench.plots import KINDS
from bench.plots.figure import NothingToDraw, house_style, save
from bench.report.points import Row
from bench.report.select import rows_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def draw_plots(
    frame: pd.DataFrame | pa.Table, updates: Sequence[Row], out_dir: Path, kinds: Iterable[str] = KINDS
) -> tuple[list[Path], list[str]]:
    """Draw figures as PNG and SVG.

    Args:
        frame: What `select_table` or `load_results` gave.
        updates: Rows of `updates.parquet`; empty where there are none.
        out_dir: Folder for the figures, made if need be; older ones of the same kinds are replaced.
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
    for name in (kind.replace("-", "_") for kind in kinds):
        draw = importlib.import_module(f"bench.plots.{name}").draw
        try:
            with house_style():
                paths += save(draw(rows, updates), out_dir, name)
        except NothingToDraw as nothing:
            notes.append(str(nothing))
    if not paths:
        raise BenchError("\n".join(notes))
    return paths, notes
