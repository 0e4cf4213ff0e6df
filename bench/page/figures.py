"""The pictures of the page: the interactive chart's place, and figures drawn as SVG inside the document."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from bench.errors import BenchError
from bench.plots.draw import draw_plots

_FIGURES = ("heat-map", "scaling", "memory-breakdown", "energy")
MOST_LAUNCHES_DRAWN = 3000
"""Launches above which further figures and the law are left out: they could not be read."""


def chart(table: pa.Table, is_interactive: bool, has_points: bool) -> str:
    """Give the chart of memory against throughput its place, or draw it."""
    head = "<h2>Memory against throughput</h2>"
    if not has_points:
        return head + "<p>Nothing to draw: no configuration has both a throughput and a peak memory.</p>"
    if is_interactive:
        return (
            head + '<div id="chart" role="img" aria-label="Scatter of memory against throughput"></div>'
            "<p class=quiet>Line: the Pareto frontier of each training problem, where nothing is faster in as little "
            "memory. Hover for values, click a point for its details, click the legend to show one mode.</p>"
        )
    figures = _svg_figures(table, ("memory-throughput",))
    return head + "".join(figures) + "<p class=quiet>Install the extra [report] to make this chart interactive.</p>"


def more_figures(table: pa.Table) -> str:
    """Draw the figures that have something to show."""
    if len(table) > MOST_LAUNCHES_DRAWN:
        return f"<p class=quiet>No further figures: {len(table):,} launches are too many for them.</p>"
    figures = _svg_figures(table, _FIGURES)
    return "<h2>More figures</h2>" + "".join(figures) if figures else ""


def _svg_figures(table: pa.Table, kinds: Sequence[str]) -> list[str]:
    with TemporaryDirectory() as folder:
        try:
            paths, _ = draw_plots(table, (), Path(folder), kinds)
        except BenchError:
            return []
        images = []
        for path in paths:
            if path.suffix == ".svg":
                content = base64.b64encode(path.read_bytes()).decode()
                name = path.stem.replace("_", " ")
                images.append(f'<div class=figure><img alt="{name}" src="data:image/svg+xml;base64,{content}"></div>')
        return images
