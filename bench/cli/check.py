"""`bench check`: prove the accumulation before a long run."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import NamedPath, require_current_folder
from bench.errors import BenchError

if TYPE_CHECKING:
    from bench.check.exchange.lines import Line
    from bench.check.exchange.request import ProofRequest

_COLORS = {"PASS": "green", "FAIL": "red", "NOT PROVEN": "yellow", "NOT APPLICABLE": "bright_black"}


@click.command()
@click.argument("sweep_file", metavar="[SWEEP]", type=NamedPath(), required=False)
@click.option(
    "--step",
    metavar="MODULE:FUNCTION",
    help="Prove this training step instead of bench's own loop: step(model, optimizer, micro_batches), imported from "
    "the current folder; docs/check.md has the protocol.",
)
@click.option(
    "--model",
    metavar="NAME",
    help="Without SWEEP: a preset, MODULE:FUNCTION that builds a model, or a config.json of Hugging Face.  "
    "[default: gpt2-nano]",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    help="Check the configured precision on this device instead of the one in the sweep file. Checks in float64 and "
    "with two ranks always run on the CPU.",
)
@click.option(
    "--world-size",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    help="Without SWEEP: prove it on this many ranks too. A step finds them joined by torch.distributed.",
)
@click.option(
    "--format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to write the checklists. json has one row per line and configuration.",
)
@click.option(
    "--time-limit-s",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for each configuration, the start of its processes included; what is left then is NOT PROVEN.",
)
@click.pass_context
def check(
    ctx: click.Context,
    sweep_file: Path | None,
    step: str | None,
    model: str | None,
    device: str | None,
    world_size: int,
    format: str,
    time_limit_s: float,
) -> None:
    """Prove that accumulated updates equal those of one concatenated batch.

    For each configuration of SWEEP (those that differ only in micro-batch size count once), trains a small copy of its
    model on at most 7 sequences in float64, compares every update with that of one concatenated batch, and prints a
    checklist: PASS, FAIL, NOT PROVEN or NOT APPLICABLE, with the number behind each. Exits with 1 if a line failed,
    with 2 if there is no such model or step. Without SWEEP it proves your own training step (--step) or bench's loop on
    your own model (--model).

    \b
    Example:
      bench check sweeps/quickstart.yaml
    """
    from bench.check.exchange.lines import overall
    from bench.drive.proofs import run_proof
    from bench.drive.work import rank_launcher
    from bench.launch.interrupts import Interrupts
    from bench.record.paths import LaunchPaths
    from bench.units import counted

    require_current_folder()
    requests = list(_requests(sweep_file, step, model, device, world_size, time_limit_s))
    rows: list[dict[str, Any]] = []
    verdicts = []
    on_one_rank: dict[str, list[Line]] = {}
    launcher = rank_launcher(needs_hf=any(request.hf is not None or request.lora is not None for request in requests))
    with tempfile.TemporaryDirectory(prefix="bench-check-") as folder, Interrupts() as interrupts:
        launcher.warm_up()  # signals are merely noted: none comes between the start of a server and the note of it
        for request in requests:
            lines = run_proof(
                request, lambda key: LaunchPaths(Path(folder) / key), launcher, interrupts, known=on_one_rank
            )
            if lines is None:
                click.echo("interrupted", err=True)
                ctx.exit(128 + (interrupts.number or 15))
            verdicts.append(overall(lines))
            rows += [_row(request, verdicts[-1], line) for line in lines]
            if format == "table":
                _print(request, verdicts[-1], lines)
    if format == "json":
        click.echo(json.dumps({"format": 1, "rows": rows}, indent=1, ensure_ascii=False, allow_nan=False))
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in _COLORS if verdict in verdicts)
    click.echo(f"{counted(len(verdicts), 'configuration')}: {counts}", err=format != "table")
    ctx.exit(1 if "FAIL" in verdicts else 0)


def _requests(
    sweep_file: Path | None,
    step: str | None,
    model: str | None,
    device: str | None,
    world_size: int,
    time_limit_s: float,
) -> Iterator[ProofRequest]:
    """List what is to be proved, each distinct configuration once, in the order of the file."""
    from bench.check.exchange.request import ProofRequest, request_of
    from bench.sweep.hf.configuration import hf_config, is_hf

    if sweep_file is None:
        if step is None and model is None:
            raise BenchError("Nothing to prove: give a sweep file, --step or --model.")
        from bench.machine.environment import machine_facts

        facts = machine_facts({device or "cpu"})
        where = facts.device if device == "auto" else device or "cpu"
        folder = os.fspath(Path.cwd())
        yield ProofRequest(
            model=model or "gpt2-nano",
            hf=hf_config(model) if model is not None and is_hf(model) else None,
            step=step,
            device=where,
            world_size=world_size,
            working_directory=folder,
            time_limit_s=time_limit_s,
        )
        return
    if world_size > 1:
        raise BenchError("SWEEP together with --world-size: a sweep has world sizes of its own. Leave one out.")
    if step is not None or model is not None:
        raise BenchError("SWEEP does not go with --step or --model, as a sweep names its own models. Leave one out.")
    from bench.cli.load import load_for_device
    from bench.sweep.expand import expand
    from bench.sweep.trial import Search, Skipped

    sweep, facts = load_for_device(sweep_file, device)
    seen = set()
    points = expand(sweep, facts)
    for point in points:
        if isinstance(point, Skipped):
            continue
        trial = point.candidates[0] if isinstance(point, Search) else point
        request = request_of(trial.config, time_limit_s)
        if request.key() not in seen:
            seen.add(request.key())
            yield request
    if not seen:
        reasons = {point.reason for point in points if isinstance(point, Skipped)}
        raise BenchError(f"{sweep_file}: every trial is skipped on this machine: {'; '.join(sorted(reasons))}")


def _row(request: ProofRequest, verdict: str, line: Line) -> dict[str, Any]:
    """Write one line of a checklist with its configuration, null where there is no figure."""
    from bench.check.exchange.lines import TITLES

    settings = {
        name: value
        for name, value in vars(request).items()
        if name not in ("working_directory", "seed", "own", "user_code")
    }
    figure = line.figure if line.figure is not None and math.isfinite(line.figure) else None
    return {
        **settings,
        "proof": verdict,
        "line": line.name,
        "statement": TITLES[line.name],
        "verdict": line.verdict,
        "figure": figure,
        "words": line.words,
    }


def _print(request: ProofRequest, verdict: str, lines: Iterable[Line]) -> None:
    """Print one checklist: the verdict first, then what it is about, then the figure in a sentence."""
    from bench.check.exchange.lines import TITLES
    from bench.cli.options import terminal_color

    color = terminal_color()

    def shown(text: str, width: int = 0) -> str:
        return click.style(text.ljust(width), fg=_COLORS[text]) if color else text.ljust(width)

    click.echo(f"{request.label()}: {shown(verdict)}")
    for line in lines:
        click.echo(f"  {shown(line.verdict, 14)}  {TITLES[line.name]}")
        click.echo(f"                  {line.words}")
    click.echo()
    sys.stdout.flush()
