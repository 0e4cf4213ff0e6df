"""How commands that run trials end: the table, what to run, then where everything is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click


def show_end(folder: Path, draw: bool, recommend: bool = False, found: Sequence[str] = ()) -> None:
    """Print the table on stdout, what searches found, what to run and the plot when asked, and where all is."""
    from bench.cli.options import terminal_color, terminal_width
    from bench.errors import BenchError
    from bench.report.select import select_table
    from bench.report.table import render

    table = select_table([folder])
    click.echo(render(table, "table", (), width=terminal_width(), color=terminal_color()), nl=False)
    if found:
        click.echo("\n" + "\n".join(found))
    if recommend:
        from bench.decide.recommend_summary import recommendation_lines

        click.echo("\n" + "\n".join(recommendation_lines(table)))
        click.echo(f"more: bench recommend {folder}")
    click.echo(f"\nresults  {folder / 'results.parquet'}")
    if not draw:
        return
    from bench.plots.draw import draw_plots

    try:
        pictures, _ = draw_plots(table, (), folder / "plots", ("memory-throughput",))
    except BenchError as error:
        click.echo(f"no plot: {error}")
    else:
        click.echo(f"plot     {pictures[0]}")
