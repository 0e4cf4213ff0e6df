"""`bench plot`: memory against throughput, as PNG and SVG."""

from __future__ import annotations

from pathlib import Path

import click

from bench.cli.options import results_argument, where_option
from bench.errors import BenchError


@click.command()
@results_argument
@where_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder for the figures; figures of an earlier run in it are replaced.  [default: plots/ beside the results]",
)
def plot(results: tuple[Path, ...], where: tuple[str, ...], out: Path | None) -> None:
    """Plot memory against throughput.

    RESULTS is one or more results folders or parquet files. Writes memory_throughput.png and .svg: one point per trial,
    peak allocated memory [GiB or MiB, worst rank] against valid tokens per second [all ranks], with the Pareto
    frontier marked and the fastest trial named. Trials without a value are listed below the figure. Prints the paths.

    \b
    Example:
      bench plot results/quickstart --where 'world_size == 1'
    """
    from bench.report.plot import plot_memory_throughput
    from bench.report.select import select_table

    table = select_table(results, where)
    for path in plot_memory_throughput(table, out or _beside(results)):
        click.echo(path)


def _beside(results: tuple[Path, ...]) -> Path:
    if len(results) > 1:
        raise BenchError(f"{len(results)} results named: say with --out which folder the figures go to.")
    folder = results[0] if results[0].is_dir() else results[0].parent
    return folder / "plots"
