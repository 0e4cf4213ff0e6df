"""`bench sweep`: run what is missing of a sweep."""

from __future__ import annotations

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
    "--retry-failed", is_flag=True, help="Run failed, timed-out, hung and killed launches again, 3 times at most."
)
@click.option(
    "--start-method",
    type=click.Choice(["forkserver", "spawn"]),
    default="forkserver",
    show_default=True,
    help="How ranks start: from a warm server in milliseconds, or each from nothing in seconds.",
)
@click.option("--no-plot", is_flag=True, help="Do not draw the plot at the end.")
@click.pass_context
def sweep(
    ctx: click.Context,
    sweep_file: Path,
    out: Path | None,
    device: str | None,
    only: tuple[str, ...],
    retry_failed: bool,
    start_method: str,
    no_plot: bool,
) -> None:
    """Run what is missing of a sweep.

    Each trial of SWEEP is launched in fresh processes, one launch per round, and becomes one row of
    results/<sweep name>/results.parquet, whatever becomes of it: an out-of-memory error is a result. Run the same
    command again to resume. Ends with the table and a plot; progress goes to stderr.

    \b
    Example:
      bench sweep sweeps/quickstart.yaml
    """
    from rich.console import Console

    from bench.cli.ending import show_end
    from bench.cli.load import load_for_device
    from bench.cli.only import trials_that_meet
    from bench.cli.progress import SweepProgress
    from bench.run.driver import SweepInterrupted, run_sweep
    from bench.run.launch import Launcher

    messages = Console(stderr=True)
    asked, facts = load_for_device(sweep_file, device)
    folder = out or Path("results") / asked.name
    if asked.question:
        messages.print(asked.question, style="bold", highlight=False, markup=False)
    try:
        with SweepProgress(messages) as progress:
            launcher = Launcher("spawn" if start_method == "spawn" else "forkserver")
            summary = run_sweep(
                asked,
                folder,
                facts,
                progress,
                only=trials_that_meet(only),
                retry_failed=retry_failed,
                launcher=launcher,
            )
    except SweepInterrupted as interrupt:
        messages.print(f"interrupted; everything finished is kept in {folder}. Run the command again to go on.")
        ctx.exit(128 + interrupt.number)
    if summary.launched == 0:
        which = "all" if not only else "of the selected trials, all"
        messages.print(f"nothing is missing: {which} {summary.already_done} launches are done", highlight=False)
    show_end(folder, draw=not no_plot)
    ctx.exit(1 if summary.failed else 0)
