"""`bench sweep`: run what is missing of a sweep."""

from __future__ import annotations

import signal
from pathlib import Path

import click


@click.command()
@click.argument("sweep_file", metavar="SWEEP", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Results folder.  [default: results/<sweep name>]")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    help="Run on this device instead of the one in the sweep file; `cpu` says that a GPU in this machine is not meant.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="'COLUMN OP VALUE'",
    help="Run only trials whose settings meet the condition, such as 'amp_mode == bf16'. May be repeated: a trial must "
    "meet all. The rest stays missing, to be run later.  [default: all trials]",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 1000),
    help="Passes over all trials, instead of the number in the sweep file; more than before adds rounds to a finished "
    "sweep. Of a search, micro_batch_size: {max: N}, the later rounds run every size that fitted in the first.  "
    "[default: measure.rounds]",
)
@click.option(
    "--retry-failed", is_flag=True, help="Run failed, timed-out, hung and killed launches again, 3 times at most."
)
@click.option(
    "--start-method",
    type=click.Choice(["forkserver", "spawn"]),
    default="forkserver",
    show_default=True,
    help="How ranks start: from a warm server in milliseconds, or each from nothing in seconds.",
)
@click.option(
    "--time-limit-s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End within so many seconds: no launch starts that cannot end in what is left, going by the longest so far. "
    "Exits with 143 when something is left; run the command again to go on.  [default: no limit]",
)
@click.option(
    "--fresh",
    is_flag=True,
    help="Begin anew in an empty folder. The old folder is kept: it gets the time (UTC) as a suffix, and that is said.",
)
@click.option(
    "--repair",
    is_flag=True,
    help="Go on although lines of the journal are damaged. The journal is copied aside, the whole lines are kept, and "
    "what the others told of is run again. Has no effect on a whole journal.",
)
@click.option("--no-plot", is_flag=True, help="Do not draw the plot at the end.")
@click.pass_context
def sweep(
    ctx: click.Context,
    sweep_file: Path,
    out: Path | None,
    device: str | None,
    only: tuple[str, ...],
    rounds: int | None,
    retry_failed: bool,
    start_method: str,
    time_limit_s: float | None,
    fresh: bool,
    repair: bool,
    no_plot: bool,
) -> None:
    """Run what is missing of a sweep.

    Each trial of SWEEP is launched in fresh processes, one launch per round, and becomes one row of
    results/<sweep name>/results.parquet, whatever becomes of it: an out-of-memory error is a result. Run the same
    command again to resume. Ends with the table, a recommendation and a plot; progress goes to stderr.

    \b
    Example:
      bench sweep sweeps/quickstart.yaml
    """
    from bench.cli.ending import show_end
    from bench.cli.load import load_for_device
    from bench.cli.only import require_trial, trials_that_meet
    from bench.cli.progress import PatientConsole, SweepProgress
    from bench.drive.driver import SweepInterrupted, run_sweep
    from bench.drive.folder import repair_folder, set_folder_aside
    from bench.drive.work import rank_launcher
    from bench.sweep.expand import expand

    messages = PatientConsole(stderr=True)
    asked, facts = load_for_device(sweep_file, device)
    if rounds is not None:
        asked = asked.with_rounds(rounds)
    if only:
        require_trial(only, expand(asked, facts))
    folder = out or Path("results") / asked.name
    if asked.question:
        messages.print(asked.question, style="bold", highlight=False, markup=False)
    if fresh:
        aside = set_folder_aside(folder)
        if aside is not None:
            messages.print(f"the old results are kept as {aside}", highlight=False, markup=False)
    if repair:
        for line in repair_folder(folder):
            messages.print(line, highlight=False, markup=False)
    try:
        with SweepProgress(messages) as progress:
            launcher = rank_launcher("spawn" if start_method == "spawn" else "forkserver")
            summary = run_sweep(
                asked,
                folder,
                facts,
                progress,
                only=trials_that_meet(only),
                retry_failed=retry_failed,
                launcher=launcher,
                time_limit_s=time_limit_s,
                prove=True,
            )
    except SweepInterrupted as interrupt:
        why = "interrupted" if interrupt.number else f"the time limit of {time_limit_s:g} s leaves no room for a launch"
        messages.print(
            f"{why}; everything finished is kept in {folder}, {interrupt.left} or so still to run. "
            "Run the command again to go on.",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        ctx.exit(128 + (interrupt.number or signal.SIGTERM))
    if summary.launched == 0:
        which = "all" if not only else "of the selected trials, all"
        messages.print(f"nothing is missing: {which} {summary.already_done} launches are done", highlight=False)
    show_end(folder, draw=not no_plot, recommend=True, found=summary.found)
    ctx.exit(1 if summary.failed else 0)
