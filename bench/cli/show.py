"""`bench show`: results as one table."""

from __future__ import annotations

from pathlib import Path

import click

from bench.cli.options import (
    chosen_format,
    columns_option,
    format_option,
    pool_option,
    results_argument,
    terminal_color,
    terminal_width,
    where_option,
)


@click.command()
@results_argument
@where_option
@pool_option
@columns_option
@format_option
def show(results: tuple[Path, ...], where: tuple[str, ...], pool: bool, columns: tuple[str, ...], format: str) -> None:
    """Show results as one table.

    RESULTS is one or more results folders or parquet files. The table has one row per launch, in the order of the
    sweep: throughput [valid tokens/s, all ranks], peak memory [bytes scaled, worst rank], updates applied and training
    loss [nats per valid token]. What all rows share is above them; a row that is not ok gives its reason. What the
    flags mean stands below.

    \b
    Example:
      bench show results/quickstart --where 'amp_mode == bf16' --format csv
    """
    from bench.report.launches import require_rows
    from bench.report.select import select_table
    from bench.report.table import render

    table = select_table(results, where, pool)
    if where:
        require_rows([table], results, where)
    text = render(table, chosen_format(format), columns, width=terminal_width(), color=terminal_color())
    click.echo(text, nl=False)
