"""`bench plan`: what a sweep would run, and what it would skip, before anything runs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import NO_LIMIT, NamedPath
from bench.errors import EnvironmentFault

if TYPE_CHECKING:
    from bench.sweep.expand import MachineFacts
    from bench.sweep.trial import Search, Skipped, Sweep, Trial

MOST_LABELS = 3
"""Combinations named under one reason; the rest are counted."""
PLANNED_COLUMNS = (
    "device",
    "model",
    "param_dtype",
    "amp_mode",
    "world_size",
    "micro_batch_size",
    "accumulation_steps",
    "global_batch_size",
    "seq_len",
    "rows",
)
"""Settings of a trial that its row of the plan holds."""


@click.command()
@click.argument("sweep_file", metavar="SWEEP", type=NamedPath())
@click.option(
    "--format",
    type=click.Choice(["table", "csv", "markdown", "json"]),
    default="table",
    show_default=True,
    help="How to write the plan. csv and json hold skipped combinations too, in the order of the file.",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    help="Plan for this device instead of the one in the sweep file.",
)
@click.option(
    "--gpus",
    type=click.IntRange(min=0),
    metavar="N",
    help="Plan for a machine with N usable GPUs that compute in bf16.  [default: this machine]",
)
def plan(sweep_file: Path, format: str, device: str | None, gpus: int | None) -> None:
    """List the trials of a sweep without running any.

    Lists the trials of SWEEP with their derived accumulation_steps [micro-batches per update and rank] and token slots
    per update [tokens, padding included], then every skipped combination with its reason, and the number of launches.
    Files of data that are missing or of another kind are faults of SWEEP; with --gpus they are only named on stderr.
    With --format csv, markdown or json the plan goes to stdout and the summary to stderr.

    \b
    Example:
      bench plan sweeps/a100-gpt2-124m.yaml --gpus 1
    """
    from bench.cli.load import data_faults, refuse_bad_data
    from bench.sweep.expand import expand

    sweep, facts = _load(sweep_file, device, gpus)
    if gpus is None:
        refuse_bad_data(sweep)
    else:  # the plan is for another machine, which may have files that this one lacks
        for fault in data_faults(sweep):
            click.echo(f"here: {fault}", err=True)
    entries = expand(sweep, facts)
    rows = [_row(entry, sweep) for entry in entries]
    if format == "csv":
        click.echo(_csv(rows), nl=False)
    elif format == "json":
        click.echo(json.dumps({"format": 1, "rows": rows}, indent=1, ensure_ascii=False))
    elif format == "markdown":
        click.echo(_markdown(_cells(entries, sweep)))
    else:
        if sweep.question:
            click.echo(f"{sweep.question}\n")
        _print_table(_cells(entries, sweep))
    for line in _summary(entries, sweep):
        click.echo(line, err=format != "table")


def _load(sweep_file: Path, device: str | None, gpus: int | None) -> tuple[Sweep, MachineFacts]:
    """Read the sweep, and take the machine as told or as found."""
    if gpus is None:
        from bench.cli.load import load_for_device

        try:
            return load_for_device(sweep_file, device)
        except EnvironmentFault as fault:
            raise EnvironmentFault(f"{fault} To plan for another machine, give its GPUs, as in --gpus 1.") from None
    from bench.sweep.expand import MachineFacts
    from bench.sweep.file import load_sweep

    sweep = load_sweep(sweep_file)
    if device is not None:
        sweep = sweep.on_device(device)
    return sweep, MachineFacts("cuda" if gpus else "cpu", gpus)


def _row(entry: Trial | Skipped | Search, sweep: Sweep) -> dict[str, Any]:
    """Write one combination under column names of the results, in base units, null where it has no value."""
    from bench.record.config_columns import config_columns
    from bench.sweep.trial import Search, Trial, show_value

    if isinstance(entry, Search):
        unknown = {"trial_id": None, "micro_batch_size": None, "accumulation_steps": None}
        return {
            **_row(entry.candidates[0], sweep),
            **unknown,
            "outcome": "search",
            "reason": _search_in_words(entry),
            "launches": None,
        }
    settings = config_columns(entry.config)
    row: dict[str, Any] = {
        "trial_id": entry.trial_id,
        "outcome": "planned" if isinstance(entry, Trial) else "skipped",
        "reason": None if isinstance(entry, Trial) else entry.reason,
        **{name: settings[name] for name in PLANNED_COLUMNS},
        "most_token_slots_per_update": _most_token_slots(entry),
        "launches": sweep.spec.measure.rounds if isinstance(entry, Trial) else 0,
    }
    more = {name: value for name, value in entry.axis_values if name.rsplit(".", 1)[-1] not in row}
    return row | {name: show_value(value) if isinstance(value, dict) else value for name, value in more.items()}


def _search_in_words(search: Search) -> str:
    """Say what a search may try."""
    sizes = [str(trial.config.micro_batch_size) for trial in search.candidates]
    listed = ", ".join(sizes if len(sizes) <= 6 else [*sizes[:4], "...", sizes[-1]])
    return f"finds the largest micro_batch_size that fits, of {listed}"


def _most_token_slots(entry: Trial | Skipped) -> int | None:
    """Count the token slots of a full update [tokens, all ranks]; ragged rows make it fewer."""
    if entry.config.data.factory is not None:
        return None  # what a sample feeds its owner knows
    batch = entry.config.global_batch_size
    return None if batch is None else batch * entry.config.seq_len


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    stream = io.StringIO()
    names = list(rows[0]) if rows else []
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[str(v).lower() if isinstance(v, bool) else v for v in row.values()] for row in rows])
    return stream.getvalue()


def _cells(entries: Sequence[Trial | Skipped | Search], sweep: Sweep) -> tuple[str, list[str], list[list[str]]]:
    """Lay the trials out for people: what all have in common, then heading and lines."""
    from bench.sweep.trial import Trial, show_value
    from bench.units import format_count

    trials = [entry for entry in entries if isinstance(entry, Trial)]
    ragged = any(trial.config.data.rows == "ragged" for trial in trials)
    columns = [("trial", [trial.trial_id for trial in trials])]
    columns += [
        (name, [show_value(trial.axis_values[position][1]) for trial in trials])
        for position, name in enumerate(sweep.axes)
    ]
    derived = [
        (name, [str(getattr(trial.config, name)) for trial in trials])
        for name in ("micro_batch_size", "accumulation_steps", "global_batch_size")
        if name not in sweep.axes
    ]
    slots = [format_count(_most_token_slots(trial)) for trial in trials]
    derived.append(("token slots/update" + (" at most" if ragged else ""), slots))
    common = [(name, cells[0]) for name, cells in derived if name != "accumulation_steps" and len({*cells}) == 1]
    columns += [(name, cells) for name, cells in derived if name not in dict(common)]
    sentence = "every trial: " + ", ".join(f"{name} {cell}" for name, cell in common) if common else ""
    # Spaces let a heading break where a terminal is narrow.
    heading = [name.replace("_", " ") for name, _ in columns]
    return (
        sentence.replace("_", " "),
        heading,
        [list(line) for line in zip(*(cells for _, cells in columns), strict=True)],
    )


def _markdown(cells: tuple[str, list[str], list[list[str]]]) -> str:
    import pandas as pd

    _, heading, lines = cells
    return str(pd.DataFrame(lines, columns=pd.Index(heading)).to_markdown(index=False, disable_numparse=True))


def _print_table(cells: tuple[str, list[str], list[list[str]]]) -> None:
    """Print the trials on stdout; headings break at spaces where the terminal is narrow, values never."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    common, heading, lines = cells
    if not lines:
        return
    if common:
        click.echo(f"{common}\n")
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = NO_LIMIT
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, name in enumerate(heading):
        values = [line[position] for line in lines]
        numbers = position > 0 and all(value.replace(",", "").replace(".", "").isdigit() for value in values)
        table.add_column(
            name, justify="right" if numbers else "left", min_width=max(map(len, [*values, *name.split()]))
        )
    for line in lines:
        table.add_row(*line)
    with console.capture() as capture:
        console.print(table, crop=False)
    lines_of_text = (line.rstrip() for line in capture.get().splitlines())
    click.echo("\n".join(line for line in lines_of_text if line) + "\n")


def _summary(entries: Sequence[Trial | Skipped | Search], sweep: Sweep) -> list[str]:
    """Name the skips by reason, and count what is left."""
    from bench.sweep.trial import Search, Skipped, Trial
    from bench.units import counted, format_seconds

    by_reason: dict[str, list[str]] = {}
    trials = [entry for entry in entries if isinstance(entry, Trial)]
    for entry in entries:
        if isinstance(entry, Skipped):
            by_reason.setdefault(entry.reason, []).append(entry.label())
    lines = []
    for reason, labels in by_reason.items():
        rest = len(labels) - MOST_LABELS
        lines.append(f"skipped {len(labels)}: {reason}")
        lines += [f"    {label}" for label in labels[:MOST_LABELS]] + ([f"    and {rest} more"] if rest > 0 else [])
    searches = [entry for entry in entries if isinstance(entry, Search)]
    lines += [f"search: {entry.label()}: {_search_in_words(entry)}" for entry in searches]
    if lines:
        lines.append("")
    measure = sweep.spec.measure
    launches = len(trials) * measure.rounds
    skipped = len(entries) - len(trials) - len(searches)
    searching = f"{counted(len(searches), 'search')}, " if searches else ""
    again = ", and in later rounds every size that fitted" if measure.rounds > 1 else ""
    alone = f"a few launches for each search{again}"
    more = f" and those of the searches, a few each{again}" if searches else ""
    all_launches = f"{counted(launches, 'launch')}{more}" if trials or not searches else alone
    lines.append(
        f"{counted(len(entries), 'combination')}: {counted(len(trials), 'trial')}, {searching}{skipped} skipped; "
        f"{counted(measure.rounds, 'round')}, so {all_launches}"
    )
    if launches:
        gpus = sum(trial.config.world_size for trial in trials if trial.config.device == "cuda") * measure.rounds
        gpu_time = f" and {gpus * measure.timeout_s / 3600:,.1f} GPU-hours" if gpus else ""
        most = format_seconds(launches * measure.timeout_s)
        without = ", without the searches" if searches else ""
        lines.append(f"at most {most}{gpu_time}{without} (measure.timeout_s = {measure.timeout_s:g} s per launch)")
    return lines
