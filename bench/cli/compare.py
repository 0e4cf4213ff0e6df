"""`bench compare`: candidates against a baseline."""

from __future__ import annotations

from pathlib import Path

import click

from bench.cli.options import (
    chosen_format,
    format_option,
    results_argument,
    terminal_color,
    terminal_width,
    where_option,
)

_FAIL_ON = ("slower", "unclear", "loss")


@click.command()
@results_argument
@click.option(
    "--baseline",
    multiple=True,
    metavar="'COLUMN OP VALUE'",
    help="The configuration to compare with, such as 'trial_id == 0a1b2c3d4e5f'. May be repeated: exactly one "
    "configuration must meet all.  [default: the first one of RESULTS]",
)
@where_option
@format_option
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(_FAIL_ON),
    help="Exit 1 when a candidate is slower (or was run and has no speed), when a verdict is unclear, or when a loss "
    "curve differs; exit 2 when a candidate had to be refused. For CI; may be repeated.  [default: exit 0 whatever "
    "the verdicts]",
)
@click.option("--force", is_flag=True, help="Compare unlike machines, other work and unequal global batches as well.")
@click.pass_context
def compare(
    ctx: click.Context,
    results: tuple[Path, ...],
    baseline: tuple[str, ...],
    where: tuple[str, ...],
    format: str,
    fail_on: tuple[str, ...],
    force: bool,
) -> None:
    """Compare candidates with a baseline.

    RESULTS is one or more results folders or parquet files. Launches are paired by round; the ratio of valid tokens/s
    [all ranks] comes with its 95 % interval and a verdict: faster, slower, same, or unclear with the rounds that would
    settle it. Peak memory is compared in bytes [worst rank]; runs of the same work must have the same loss curve.
    Unlike machines, other work and unequal global batches are refused. docs/deciding.md explains the verdicts.

    \b
    Example:
      bench compare results/quickstart --baseline 'amp_mode == fp32' --baseline 'micro_batch_size == 8'
    """
    from bench.report.compare import compare as compare_rows
    from bench.report.compare_words import render_comparison
    from bench.report.launches import load_launches
    from bench.report.loss_curves import load_curves

    comparison = compare_rows(load_launches(results, where), baseline, load_curves(results), force=force)
    if comparison.is_forced:
        click.echo(
            "FORCED: unlike machines, other work or unequal global batches are compared. Read the notes.", err=True
        )
    text = render_comparison(comparison, chosen_format(format), width=terminal_width(), color=terminal_color())
    click.echo(text, nl=False)
    if not fail_on:
        return
    refused = [one for one in comparison.candidates if one.is_refused]
    if refused:
        click.echo(f"--fail-on: {len(refused)} candidates were refused, so this decides nothing.", err=True)
        ctx.exit(2)
    failures = []
    for one in comparison.candidates:
        lost = one.verdict is None and one.candidate.was_run
        is_bad = {
            "slower": lost or (one.verdict is not None and one.verdict.word == "slower"),
            "unclear": one.verdict is not None and one.verdict.word == "unclear",
            "loss": one.loss is not None and one.loss.word == "differ",
        }
        failures += [f"{word}: {one.candidate.name}" for word in fail_on if is_bad[word]]
    for failure in failures:
        click.echo(f"--fail-on {failure}", err=True)
    ctx.exit(1 if failures else 0)
