"""`bench sweep`: run what is missing of a sweep."""

from __future__ import annotations

import signal
from pathlib import Path

import click

from bench.cli.options import OUT_FOLDER, NamedPath, require_current_folder


@click.command()
@click.argument("sweep_file", metavar="SWEEP", type=NamedPath())
@click.option("--out", type=OUT_FOLDER, help="Results folder.  [default: results/<sweep name>]")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    help="Run on this device instead of the one in the sweep file; `cpu` ignores this machine's GPU.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="'COLUMN OP VALUE'",
    help="Run only trials whose settings match, such as 'amp_mode == bf16'. May be repeated: a trial must match all. "
    "The others can be run later.  [default: all trials]",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 1000),
    help="Rounds (passes over all trials), instead of the number in the sweep file; a larger number adds rounds to a "
    "finished sweep. In a search, micro_batch_size: {max: N}, later rounds run every size that fitted in the first.  "
    "[default: measure.rounds]",
)
@click.option(
    "--retry-failed", is_flag=True, help="Retry failed, timed-out, hung and killed launches, at most 3 times."
)
@click.option(
    "--start-method",
    type=click.Choice(["forkserver", "spawn"]),
    default="forkserver",
    show_default=True,
    help="How ranks start: from a warm server in milliseconds, or from scratch in seconds.",
)
@click.option(
    "--time-limit-s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End within so many seconds: starts no launch unless the longest so far would fit in the time left. Exits "
    "with 143 when launches are left; run the command again to resume.  [default: no limit]",
)
@click.option(
    "--fresh",
    is_flag=True,
    help="Start over in an empty folder. The old folder is kept, renamed with the time (UTC) as a suffix.",
)
@click.option(
    "--repair",
    is_flag=True,
    help="Resume although lines of the journal are damaged: the journal is copied aside, intact lines are kept, and "
    "launches on damaged lines run again. Has no effect on an intact journal.",
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
    """Run a sweep, or resume it.

    Each trial of SWEEP is launched in fresh processes, once per round, and each launch becomes one row of
    results/<sweep name>/results.parquet, however it ends: out of memory is a result too. Run the same command again to
    resume. Ends with the table, a recommendation and a plot; progress goes to stderr.

    \b
    Example:
      bench sweep sweeps/quickstart.yaml
    """
    from rich.console import Console

    from bench.cli.ending import show_end
    from bench.cli.load import load_for_device, refuse_bad_data
    from bench.cli.only import require_trial, trials_that_meet
    from bench.cli.progress import SweepProgress
    from bench.drive.driver import SweepInterrupted, run_sweep
    from bench.drive.folder import repair_folder, set_folder_aside
    from bench.drive.work import rank_launcher
    from bench.sweep.expand import expand
    from bench.sweep.hf.files import needs_hf

    require_current_folder()
    messages = Console(stderr=True)
    asked, facts = load_for_device(sweep_file, device)
    refuse_bad_data(asked)
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
            launcher = rank_launcher("spawn" if start_method == "spawn" else "forkserver", needs_hf(asked.spec))
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
        why = (
            "interrupted"
            if interrupt.number
            else f"no launch fits in what is left of the time limit of {time_limit_s:g} s"
        )
        messages.print(
            f"{why}; finished launches are kept in {folder}, about {interrupt.left} are left. "
            "Run the command again to resume.",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        ctx.exit(128 + (interrupt.number or signal.SIGTERM))
    if summary.launched == 0:
        which = " of the selected trials" if only else ""
        messages.print(f"nothing left to run: all {summary.already_done} launches{which} are done", highlight=False)
    show_end(folder, draw=not no_plot, recommend=True, found=summary.found)
    ctx.exit(1 if summary.failed else 0)
