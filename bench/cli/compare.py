"""`bench compare`: candidates against a baseline, fresh launches side by side, or this machine against a reference."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.compare_reference import hold_against_reference
from bench.cli.compare_run import LEAST_BLOCKS, USUAL_BLOCKS, RunOptions, run_side_by_side
from bench.cli.options import (
    OUT_FOLDER,
    chosen_format,
    format_option,
    pool_option,
    terminal_color,
    terminal_width,
    where_option,
)
from bench.errors import BenchError

if TYPE_CHECKING:
    from bench.decide.before_after import BeforeAfter
    from bench.decide.compare import Compared, Comparison
    from bench.report.configurations import Configuration
    from bench.report.launch_rows import Row

_FAIL_ON = ("slower", "unclear", "loss", "missing")
_ANY_REFERENCE = "\0"
"""Stands for --reference without a name."""


@click.command()
@click.argument("arguments", metavar="RESULTS...", nargs=-1, required=True)
@click.option(
    "--baseline",
    multiple=True,
    metavar="'COLUMN OP VALUE'",
    help="The configuration to compare with, such as 'trial_id == 0a1b2c3d4e5f'. May be repeated: exactly one "
    "configuration must match all.  [default: the first one of RESULTS]",
)
@where_option
@pool_option
@format_option
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(_FAIL_ON),
    help="For CI: exit 1 when a candidate is slower (or ran without giving a speed), a verdict is unclear, or a loss "
    "curve differs, or something is missing (only one side has a configuration, or a speed of it); exit 2 when that "
    "cannot be decided: a candidate was refused, a proof failed, or a loss curve could not be compared. May be "
    "repeated.  [default: exit 0 whatever the verdicts]",
)
@click.option("--force", is_flag=True, help="Compare different machines, workloads and global batches anyway.")
@click.option(
    "--run",
    is_flag=True,
    help="Make new launches. RESULTS is then one results folder or sweep file, followed by the configurations: the "
    "baseline, then one candidate or more, each a trial id, a name as in the tables, or conditions such as 'amp_mode "
    "== bf16 and micro_batch_size == 8'. Without any, all that RESULTS holds.",
)
@click.option(
    "--blocks",
    type=click.IntRange(LEAST_BLOCKS, 1000),
    help=f"With --run: number of blocks; each launches every configuration once.  [default: {USUAL_BLOCKS}]",
)
@click.option(
    "--preset",
    type=click.Choice(["quick", "normal", "strict"]),
    help="With --run: how long each launch measures.  [default: as RESULTS was measured]",
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="With --run: device.  [default: as RESULTS was run]")
@click.option(
    "--out",
    type=OUT_FOLDER,
    help="With --run: results folder; resumes a comparison already in it.  [default: results/compare-<utc>-<trials>]",
)
@click.option(
    "--reference",
    is_flag=False,
    flag_value=_ANY_REFERENCE,
    metavar="[NAME|PATH]",
    help="Compare this machine with a reference: a shipped one by name, or a results folder of another machine. Must "
    "come last when it has no value.  [default: the reference that shares the most configurations]",
)
@click.pass_context
def compare(
    ctx: click.Context,
    /,
    arguments: tuple[str, ...],
    baseline: tuple[str, ...],
    where: tuple[str, ...],
    pool: bool,
    format: str,
    fail_on: tuple[str, ...],
    force: bool,
    run: bool,
    reference: str | None,
    **of_run: Any,
) -> None:
    """Compare candidates with a baseline.

    RESULTS is a results folder or parquet file: its configurations are compared with one of them, launches paired by
    round. Two RESULTS are before and after: each configuration of the second is compared with itself in the first,
    rounds unpaired, and what changed between them is told. More need --pool, which makes one set of rounds.

    The ratio of valid tokens/s [all ranks] comes with its 95 % interval and a verdict: faster, slower, same, or unclear
    with the rounds that would settle it. Peak memory is compared in bytes [worst rank]; configurations that train the
    same must have the same loss curve. Different machines, workloads or global batches are refused. docs/deciding.md
    explains the verdicts.

    With --run new launches are made side by side, in blocks of alternating order (AB BA AB ...), and kept in a results
    folder. With --reference the newest results of this machine are compared with those of a known one: is this machine
    slow?

    \b
    Example:
      bench compare results/quickstart --baseline 'amp_mode == fp32' --baseline 'micro_batch_size == 8'
      bench compare results/before results/after --fail-on slower --fail-on missing
      bench compare results/quickstart --run 'fp32 4 x 4' 'fp32 16 x 1'
      bench compare results/quickstart --reference
    """
    _refuse_mixed(run, reference, baseline, where, pool, of_run)
    _refuse_for_reference(reference, fail_on, pool)
    if not run and reference is None:
        _refuse_many(arguments, pool, baseline)
    if reference is not None:
        name = None if reference == _ANY_REFERENCE else reference
        paths = [Path(argument) for argument in arguments]
        ctx.exit(hold_against_reference(paths, where, name, format, fail_on, force))
    from bench.decide.before_after import BeforeAfter, compare_results
    from bench.decide.before_after_output import render_before_after
    from bench.decide.compare import compare as compare_rows
    from bench.decide.compare_output import render_comparison
    from bench.decide.loss_curves import load_curves
    from bench.report.launches import load_launches
    from bench.report.named_results import folder_of, names_of

    results, failed = [Path(argument) for argument in arguments], 0
    if run:
        blocks = of_run.pop("blocks") or USUAL_BLOCKS
        options = RunOptions(blocks=blocks, force=force, **of_run)
        ran = run_side_by_side(ctx, results[0], arguments[1:], options)
        results, baseline, failed = [ran.folder], (f"trial_id == {ran.baseline}",), ran.failed
    rows = load_launches(results, where, pool)
    comparison: Comparison | BeforeAfter
    try:
        if len(results) > 1 and not pool:
            comparison = compare_results(rows, names_of(results), load_curves(results), force)
        else:
            comparison = compare_rows(rows, baseline, load_curves(results), force=force, unfit_is_answer=run)
    except BenchError as fault:
        if not failed:
            raise BenchError(f"{fault}{_going_on(rows, results)}") from fault
        click.echo(
            f"{failed} launches failed, so there is nothing to compare ({fault}). See bench show {results[0]}", err=True
        )
        ctx.exit(1)
    if comparison.is_forced:
        click.echo("FORCED: some of what is compared is not comparable. See the notes.", err=True)
    how: Any = {"format": chosen_format(format), "width": terminal_width(), "color": terminal_color()}
    if isinstance(comparison, BeforeAfter):
        text = render_before_after(comparison, [folder_of(path) for path in results], **how)
    else:
        text = render_comparison(comparison, **how)
    click.echo(text, nl=False)
    if run:
        click.echo(f"\nto print this again: bench compare {results[0]}", err=True)
    gate = _gate(comparison, fail_on)
    ctx.exit(1 if failed else gate)


def _going_on(rows: Sequence[Row], results: Sequence[Path]) -> str:
    """Give the command that goes on with the only results folder, where it was interrupted; else nothing."""
    file = results[0] / "sweep.yaml"
    if len(results) > 1 or not file.is_file() or "interrupted" not in {row["outcome"] for row in rows}:
        return ""
    return f"\nIt was interrupted. Resume with: {shlex.join(['bench', 'sweep', str(file), '--out', str(results[0])])}"


def _refuse_many(results: Sequence[str], pool: bool, baseline: Sequence[str]) -> None:
    """Say what two results and more are, where the command says something else."""
    if len(results) > 2 and not pool:
        raise click.UsageError(
            f"{len(results)} RESULTS: one holds a baseline and its candidates, two are before and after. Name two of "
            f"them, or make one set of rounds of all with --pool."
        )
    if len(results) == 2 and not pool and baseline:
        raise click.UsageError(
            "--baseline chooses one configuration of one set of rounds, but of two RESULTS each configuration of the "
            "first is the baseline of the same one in the second. Leave out --baseline, or make one set with --pool."
        )


def _refuse_for_reference(reference: str | None, fail_on: Sequence[str], pool: bool) -> None:
    if reference is None:
        return
    if "loss" in fail_on:
        raise click.UsageError("--fail-on loss does not go with --reference, which compares no loss curves.")
    if "missing" in fail_on:
        raise click.UsageError(
            "--fail-on missing does not go with --reference: --fail-on slower names what has no speed here."
        )
    if pool:
        raise click.UsageError("--pool does not go with --reference, which takes the newest of all RESULTS.")


def _refuse_mixed(
    run: bool,
    reference: str | None,
    baseline: tuple[str, ...],
    where: tuple[str, ...],
    pool: bool,
    of_run: dict[str, Any],
) -> None:
    given = [f"--{name}" for name, value in of_run.items() if value is not None]
    if given and not run:
        raise click.UsageError(f"{', '.join(given)} needs --run: stored results are compared as they are.")
    if run and reference is not None:
        raise click.UsageError("--run does not go with --reference: run a sweep, then compare it.")
    if run and pool:
        raise click.UsageError("--pool does not go with --run, which makes rounds of its own.")
    if run and (baseline or where):
        raise click.UsageError(
            "--run takes configurations as arguments, the baseline first: leave out --baseline and --where."
        )
    if reference is not None and baseline:
        raise click.UsageError("--reference makes the other machine the baseline: leave out --baseline.")


def _gate(comparison: Comparison | BeforeAfter, fail_on: tuple[str, ...]) -> int:
    """Say on stderr what fails the gate, and give the exit code."""
    refused = [one for one in comparison.candidates if one.is_refused]
    if fail_on and refused:
        click.echo(f"--fail-on: {len(refused)} candidates were refused, so this is undecided.", err=True)
        return 2
    if fail_on and (unproven := comparison.unproven):
        names = ", ".join(one.name for one in unproven)
        click.echo(f"--fail-on: the accumulation proof of {names} failed, so this is undecided.", err=True)
        return 2
    failures = []
    for one in comparison.candidates:
        lost = one.verdict is None and one.candidate.was_run and not one.candidate.speeds
        is_bad = {
            "slower": lost or (one.verdict is not None and one.verdict.word == "slower"),
            "unclear": one.verdict is not None and one.verdict.word == "unclear",
            "loss": one.loss is not None and one.loss.word == "differ",
            "missing": one.is_missing,
        }
        failures += [f"{word}: {one.candidate.name}" for word in fail_on if is_bad[word]]
    if "missing" in fail_on:
        failures += [f"missing: {one.name} is only in {name}" for name, one in _alone(comparison)]
    for failure in failures:
        click.echo(f"--fail-on {failure}", err=True)
    if failures or "loss" not in fail_on:
        return 1 if failures else 0
    unknown = [one for one in comparison.candidates if one.candidate.was_run and _has_no_loss_verdict(one)]
    for one in unknown:
        why = one.reason if one.loss is None else one.loss.note
        click.echo(f"--fail-on loss: {one.candidate.name} was not compared ({why}), so this is undecided.", err=True)
    return 2 if unknown else 0


def _alone(comparison: Comparison | BeforeAfter) -> list[tuple[str, Configuration]]:
    """List the configurations that only one of two results has, with its name."""
    from bench.decide.before_after import BeforeAfter

    if not isinstance(comparison, BeforeAfter):
        return []
    sides = ((comparison.before, comparison.only_before), (comparison.after, comparison.only_after))
    return [(side.name, one) for side, ones in sides for one in ones]


def _has_no_loss_verdict(one: Compared) -> bool:
    return one.loss is None or one.loss.word == "not compared"
