"""`bench run`: one trial from flags, for a quick look."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def _setting(flag: str, help: str, kind: Any = str) -> Callable[[CommandT], CommandT]:
    """Make the option of one setting; left out, the sweep file's default holds."""
    return click.option(flag, type=kind, help=help)


@click.command()
@_setting("--model", "Preset, such as gpt2-124m.  [default: gpt2-mini]")
@_setting("--micro-batch-size", "Sequences in one forward and backward on one rank.  [default: 1]", int)
@_setting("--global-batch-size", "Sequences per update over all ranks. Give this or --accumulation-steps.", int)
@_setting("--accumulation-steps", "Micro-batches per update on each rank. Give this or --global-batch-size.", int)
@_setting("--amp-mode", "fp32, tf32, bf16 or fp16.  [default: fp32]")
@_setting("--param-dtype", "Type the weights are stored in: fp32, bf16 or fp16.  [default: fp32]")
@_setting("--seq-len", "Most tokens of a sequence.  [default: 128]", int)
@_setting("--rows", "packed, padded or ragged.  [default: packed]")
@_setting("--text", "Glob of text files to train on.  [default: Python's standard library]")
@_setting("--tokens", "Token file of uint16 ids to train on.")
@_setting("--end-of-text", "Id that ends each document of a token file, for padded and ragged rows.", int)
@_setting("--optimizer", "adamw or sgd.  [default: adamw]")
@_setting("--optimizer-implementation", "default, for_loop, foreach or fused.  [default: default]")
@_setting("--lr", "Learning rate.  [default: 0.0003]", float)
@_setting("--world-size", "Ranks: processes with one device each.  [default: 1]", int)
@_setting("--seed", "Seed of the weights and of the order of the sequences.  [default: 1337]", int)
@click.option("--activation-checkpointing", is_flag=True, help="Compute activations again in the backward pass.")
@_setting("--cpu-threads-per-rank", "Threads per rank.  [default: cores / world size]", int)
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True, help="Where.")
@_setting("--preset", "How long to measure: quick, normal or strict. Not with a fixed length.  [default: quick]")
@_setting("--warmup-updates", "Fixed number of updates before the timed part.  [default: 3 with --updates]", int)
@_setting("--updates", "Fixed number of updates of the timed part.  [default: 20 with --warmup-updates]", int)
@_setting("--quality-updates", "Update whose loss is reported; 0 for none.  [default: 20]", int)
@_setting("--timeout-s", "Longest the launch may take [seconds].  [default: 1800]", float)
@click.option("--out", type=click.Path(path_type=Path), help="Results folder.  [default: results/run-<utc>-<trial>]")
@click.pass_context
def run(ctx: click.Context, /, device: str, out: Path | None, activation_checkpointing: bool, **given: Any) -> None:
    """Run one trial from flags, for a quick look.

    The same as a sweep of one trial: the same launch, the same row, the same folder layout. Ends with the row.

    \b
    Example:
      bench run --model gpt2-tiny --global-batch-size 16 --micro-batch-size 4 --amp-mode bf16 --updates 10
    """
    from rich.console import Console

    from bench.cli.ending import show_end
    from bench.cli.progress import SweepProgress
    from bench.drive.driver import SweepInterrupted, run_sweep
    from bench.machine.environment import machine_facts
    from bench.sweep.device import devices_asked
    from bench.sweep.expand import expand
    from bench.sweep.flags import sweep_from_flags
    from bench.sweep.trial import Search

    length = {name: given.pop(name) for name in ("preset", "warmup_updates", "updates")}
    if all(value is None for value in length.values()):
        length["preset"] = "quick"
    measure = length | {"rounds": 1} | {name: given.pop(name) for name in ("quality_updates", "timeout_s")}
    nested = {
        "model": "model.preset",
        "rows": "data.rows",
        "text": "data.text",
        "tokens": "data.tokens",
        "end_of_text": "data.end_of_text",
        "optimizer": "optimizer.name",
        "optimizer_implementation": "optimizer.implementation",
        "lr": "optimizer.lr",
    }
    config = {nested.get(name, name): value for name, value in given.items()} | {"device": device}
    if activation_checkpointing:
        config["activation_checkpointing"] = True
    # The folder's name holds the trial's id, which needs the settings checked first.
    draft = sweep_from_flags(config, measure, "run")
    facts = machine_facts(devices_asked(draft))
    (point,) = expand(draft, facts)
    assert not isinstance(point, Search), "flags cannot ask for a search"
    name = f"run-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{point.trial_id}"
    sweep = sweep_from_flags(config, measure, name)
    folder = out or Path("results") / name
    try:
        with SweepProgress(Console(stderr=True)) as progress:
            summary = run_sweep(sweep, folder, facts, progress, prove=True)
    except SweepInterrupted as interrupt:
        click.echo(f"interrupted; what there is lies in {folder}", err=True)
        ctx.exit(128 + (interrupt.number or 15))
    show_end(folder, draw=False)
    ctx.exit(1 if summary.failed or summary.skipped else 0)
