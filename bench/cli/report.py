"""`bench report`: one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from bench.cli.options import NamedPath, out_named, pool_option, results_argument, where_option
from bench.cli.recommend import Count
from bench.errors import BenchError


@click.command()
@results_argument
@where_option
@pool_option
@click.option(
    "--global-batch-size",
    type=Count(),
    metavar="G",
    help="Sequences per update to recommend for.  [default: the only one in RESULTS]",
)
@click.option(
    "--run-tokens", type=Count(), metavar="T", default="1e9", show_default=True, help="Valid tokens of the run."
)
@click.option(
    "--out",
    type=NamedPath(dir_okay=False),
    metavar="FILE",
    help="The page; an older one is replaced.  [default: report.html beside the results]",
)
def report(
    results: tuple[Path, ...],
    where: tuple[str, ...],
    pool: bool,
    global_batch_size: int | None,
    run_tokens: int,
    out: Path | None,
) -> None:
    """Write one HTML page to send to a colleague.

    RESULTS is one or more results folders or parquet files. The page begins with what to run [hours per T tokens,
    bytes, valid tokens/s], then shows memory against throughput, every configuration in a table that sorts and filters,
    the details of each, what failed and why, machine and versions. It needs no network and no other file. The extra
    [report] makes its chart interactive. Prints the path.

    \b
    Example:
      bench report results/quickstart --out quickstart.html
    """
    from bench.decide.recommend import Question
    from bench.page.build import build_page
    from bench.record.atomic import write_atomically
    from bench.report.launches import launches_of, require_rows
    from bench.report.machines import why_mixed_methods
    from bench.report.select import select_table

    if out is None:
        if len(results) > 1:
            raise BenchError(f"{len(results)} results named: give a file for the page with --out.")
        out = (results[0] if results[0].is_dir() else results[0].parent) / "report.html"
    table = select_table(results, where, pool)
    require_rows([table], results, where)
    if mixed := why_mixed_methods(launches_of(table)):
        raise BenchError(mixed)
    page = build_page(table, Question(global_batch_size, run_tokens=run_tokens))
    with out_named():
        write_atomically(out, page.text.encode())
    if not page.is_interactive:
        click.echo("the chart is a plain picture: pip install 'accumbench[report]' makes it interactive", err=True)
    if page.shown < page.total:
        click.echo(f"the page shows {page.shown} of {page.total} configurations", err=True)
    click.echo(out)
