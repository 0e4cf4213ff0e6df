"""`bench plot`: the figures of a sweep, as PNG and SVG."""

from __future__ import annotations

from pathlib import Path

import click

from bench.cli.options import OUT_FOLDER, out_named, pool_option, results_argument, where_option
from bench.errors import BenchError
from bench.plots import KINDS

_SHOWN = [f"{kind} {words}".strip() for kind, words in KINDS.items()]
_HELP = f"""Plot results: memory against throughput, and more.

RESULTS is one or more results folders or parquet files. Each figure is a PNG and an SVG whose title states what was
found: {", ".join(_SHOWN[:-1])} and {_SHOWN[-1]}. Says on stderr what cannot be drawn and why. Prints the paths.

\b
Example:
  bench plot results/quickstart --where 'world_size == 1'
"""


@click.command(help=_HELP)
@results_argument
@where_option
@pool_option
@click.option(
    "--kind",
    multiple=True,
    type=click.Choice(list(KINDS)),
    help="Draw this figure. May be repeated.  [default: every figure that has something to show]",
)
@click.option(
    "--out",
    type=OUT_FOLDER,
    metavar="FOLDER",
    help="Folder for the figures; older figures in it are replaced.  [default: plots/ beside the results]",
)
def plot(
    results: tuple[Path, ...], where: tuple[str, ...], pool: bool, kind: tuple[str, ...], out: Path | None
) -> None:
    """Draw, and print the paths."""
    from bench.plots.draw import draw_plots
    from bench.report.launches import launches_of, require_rows
    from bench.report.machines import why_mixed_methods
    from bench.report.select import select_table, select_updates

    table = select_table(results, where, pool)
    require_rows([table], results, where)
    if mixed := why_mixed_methods(launches_of(table)):
        raise BenchError(mixed)
    updates = [
        {**row, "source": place}
        for place, path in enumerate(results)
        if (found := select_updates(path)) is not None
        for row in found.to_pylist()
    ]
    with out_named():
        paths, notes = draw_plots(table, updates, out or _beside(results), kind or KINDS)
    for path in paths:
        click.echo(path)
    for note in notes:
        click.echo(f"not drawn: {note}", err=True)


def _beside(results: tuple[Path, ...]) -> Path:
    if len(results) > 1:
        raise BenchError(f"{len(results)} results named: give a folder for the figures with --out.")
    folder = results[0] if results[0].is_dir() else results[0].parent
    return folder / "plots"
