"""`bench compare --run`: fresh launches of a baseline and its candidates, side by side, in a folder of their own."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.cli.options import require_current_folder
from bench.errors import BenchError
from bench.units import listed

if TYPE_CHECKING:
    from bench.cli.choose import Choice
    from bench.sweep.expand import MachineFacts
    from bench.sweep.fields import MeasureSpec
    from bench.sweep.trial import Sweep

LEAST_BLOCKS = 2
USUAL_BLOCKS = 6
"""With fewer the exact sign-flip test cannot reach 5 %."""
_MOST_IDS_IN_A_NAME = 6


@dataclass(frozen=True)
class RunOptions:
    """Hold what was asked besides which configurations."""

    blocks: int
    """Launches of each configuration, one per block."""
    preset: str | None
    """How long to measure; null as the source was measured."""
    device: str | None
    """Where to run; null where the source says."""
    out: Path | None
    """Results folder; null makes a new one."""
    force: bool
    """Compare other work and unequal global batches as well."""


@dataclass(frozen=True)
class Ran:
    """State what there is now."""

    folder: Path
    baseline: str
    """Trial id of the baseline."""
    failed: int
    """Launches that ended in a way that is not a result."""


def run_side_by_side(ctx: click.Context, source: Path, texts: Sequence[str], options: RunOptions) -> Ran:
    """Run what is missing of a comparison; leave with the signal's exit code when one came.

    Raises:
        BenchError: The configurations cannot be told from `texts`, cannot run here, or are not alike enough.
    """
    from rich.console import Console

    from bench.cli.choose import choices_of, choose
    from bench.cli.progress import SweepProgress
    from bench.drive.driver import SweepInterrupted, run_sweep

    require_current_folder()
    chosen = choose(choices_of(source, options.device), texts, source)
    if not options.force:
        _refuse_unlike(chosen)
    sweep, facts = _sweep_of(chosen, _measure(source, options))
    folder = options.out or Path("results") / f"compare-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{sweep.name[8:]}"
    _refuse_other_comparison(folder, sweep)
    _say_what_runs(chosen, options.blocks, folder)
    try:
        with SweepProgress(Console(stderr=True)) as progress:
            summary = run_sweep(sweep, folder, facts, progress, prove=True)
    except SweepInterrupted as interrupt:
        click.echo(f"interrupted; finished launches are kept, {interrupt.left} are left. Resume with:", err=True)
        click.echo(f"  {shlex.join(_command(source, texts, options, folder))}", err=True)
        ctx.exit(128 + (interrupt.number or 15))
    return Ran(folder, chosen[0].trial_id, summary.failed)


def _command(source: Path, texts: Sequence[str], options: RunOptions, folder: Path) -> list[str]:
    """Write the command that goes on with this comparison."""
    given = {"preset": options.preset, "device": options.device, "out": folder}
    words = ["bench", "compare", str(source), "--run", *texts, "--blocks", str(options.blocks)]
    words += [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    return words + ["--force"] * options.force


def _measure(source: Path, options: RunOptions) -> MeasureSpec:
    """Measure as the source was measured, or by the preset; in blocks whose order alternates."""
    from bench.sweep.fields import MeasureSpec
    from bench.sweep.file import load_sweep

    how = {"rounds": options.blocks, "order": "alternating"}
    if options.preset is not None:
        return MeasureSpec.model_validate({"preset": options.preset, **how})
    folder = source if source.is_dir() else source.parent
    file = source if source.suffix in (".yaml", ".yml") else folder / "sweep.yaml"
    if not file.exists():
        click.echo(f"no {file}, so how {source} was measured is unknown: using preset normal", err=True)
        return MeasureSpec.model_validate({"preset": "normal", **how})
    return load_sweep(file).spec.measure.model_copy(update=how)


def _sweep_of(chosen: Sequence[Choice], measure: MeasureSpec) -> tuple[Sweep, MachineFacts]:
    """Make the sweep, and refuse what this machine cannot run."""
    from bench.machine.environment import machine_facts
    from bench.sweep.chosen import sweep_of_configs
    from bench.sweep.expand import expand
    from bench.sweep.trial import Skipped

    sweep = sweep_of_configs([one.config for one in chosen], measure, _name([one.trial_id for one in chosen]))
    facts = machine_facts(sweep.devices_asked())
    faults = [
        f"{one.name} cannot run here: {point.reason}"
        for one, point in zip(chosen, expand(sweep, facts), strict=True)
        if isinstance(point, Skipped)
    ]
    if faults:
        raise BenchError("\n".join(faults))
    return sweep, facts


def _name(trial_ids: Sequence[str]) -> str:
    """Name a comparison by what it compares, so that another one never goes on in its folder."""
    if len(trial_ids) <= _MOST_IDS_IN_A_NAME:
        return "compare-" + "-".join(trial_ids)
    digest = hashlib.sha256("-".join(trial_ids).encode()).hexdigest()[:12]
    return f"compare-{trial_ids[0]}-and-{len(trial_ids) - 1}-{digest}"


def _refuse_unlike(chosen: Sequence[Choice]) -> None:
    """Refuse before anything runs what could not be compared afterwards."""
    from bench.report.machines import why_not_comparable

    base, *others = chosen
    unlike = [(one.name, reasons) for one in others if (reasons := why_not_comparable(base.columns, one.columns))]
    if unlike:
        lines = [f"  {name}: {'; '.join(reasons)}" for name, reasons in unlike]
        head = f"not comparable with the baseline {base.name}, so nothing was run (--force runs them anyway):"
        raise BenchError("\n".join([head, *lines]))


def _refuse_other_comparison(folder: Path, sweep: Sweep) -> None:
    """Blocks of a folder hold launches made side by side: another set of configurations needs a folder of its own."""
    from bench.record.journal import read_journal
    from bench.record.paths import SweepPaths

    journal = SweepPaths(folder).journal
    records = read_journal(journal) if journal.exists() else []
    if records and records[0].get("sweep") != sweep.name:
        raise BenchError(
            f"{folder} holds {records[0].get('sweep')}, not the comparison of these configurations in this order. Use "
            "another --out, or leave it out."
        )


def _say_what_runs(chosen: Sequence[Choice], blocks: int, folder: Path) -> None:
    base, *others = chosen
    head = f"baseline {base.name} against {listed([one.name for one in others], 4)}"
    click.echo(f"{head}: {blocks} blocks in alternating order, into {folder}", err=True)
    if blocks < USUAL_BLOCKS:
        click.echo(
            f"note: with {blocks} blocks the sign-flip test cannot go below p = {2 / 2**blocks:.3g}; 5 % takes "
            f"{USUAL_BLOCKS} or more",
            err=True,
        )
