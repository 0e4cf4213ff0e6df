"""`bench init`: a first sweep file, shipped or written for a model, data and a machine."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from bench.cli.options import hang, terminal_width
from bench.errors import BenchError

if TYPE_CHECKING:
    from bench.draft.sweep_file import Asked


@click.command()
@click.argument("example", metavar="[EXAMPLE]", required=False)
@click.option(
    "--model",
    metavar="NAME",
    help="What to train: a preset, such as gpt2-124m, MODULE:FUNCTION, or a config.json of Hugging Face.",
)
@click.option(
    "--data",
    metavar="FILES",
    help="What to train on: a glob of text, .jsonl or .parquet files in quotes, a .bin or .npy file of token ids, "
    "stdlib (Python's standard library) or synthetic (random tokens).  [default: stdlib]",
)
@click.option("--global-batch-size", type=int, help="Sequences per update, over all ranks; needed with --model.")
@click.option(
    "--seq-len",
    type=int,
    help="Maximum length of a sequence [tokens].  [default: what the model takes, at most 2048; on a CPU 128]",
)
@click.option(
    "--gpu",
    metavar="KIND",
    help="Kind of GPU, to write for another machine, such as a100-80gb; an unknown one is answered with the list.  "
    "[default: this machine's]",
)
@click.option(
    "--gpus",
    type=click.IntRange(1, 65_536),
    metavar="N",
    help="Number of GPUs, in this machine or another.  [default: those usable here; 1 with --gpu]",
)
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    help="Write for the CPU, or for GPUs.  [default: for GPUs where there are any]",
)
@click.option("--name", help="Name of the sweep and of its folder in results/.  [default: model and machine]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File to write; one that exists is not touched.  [default: <name>.yaml]",
)
@click.pass_context
def init(ctx: click.Context, /, example: str | None, out: Path | None, **given: Any) -> None:
    """Write a sweep file to start from.

    With --model: a commented file for that model, data and machine, with axes that make sense there; no combination is
    skipped. With EXAMPLE: one of the sweeps that come with bench. Without either: lists those, with what each asks.
    Writes the schema.json that editors read beside the file, and prints the commands to go on with.

    \b
    Example:
      bench init --model gpt2-124m --data 'data/*.txt' --global-batch-size 512 --gpu a100-80gb --gpus 8
    """
    from bench.draft.place import place

    told = {name: value for name, value in given.items() if value is not None}
    if out is not None and not str(out).isprintable():
        raise BenchError(f"--out = {str(out)!r} holds characters that do not print. Use others.")
    if example is None and not told:
        if out is not None:
            raise BenchError(f"--out {out}: nothing to write is named. Add an example's name, or --model.")
        click.echo("\n".join(_examples(min(terminal_width(), 100))))
        return
    notes: tuple[str, ...] = ()
    if example is not None:
        from bench.draft.shipped import gpus_needed, shipped_text

        path = out or Path(f"{example}.yaml")
        _refuse_mixture(example, told)
        text = shipped_text(example, shlex.quote(str(path)))
        plan_gpus = gpus_needed(example)
    else:
        from bench.draft.sweep_file import draft_sweep

        asked = _asked(told)
        command = shlex.join(["bench", "init", *_as_written(ctx, told)])
        draft = draft_sweep(asked, command)
        path, text, notes = out or Path(f"{draft.name}.yaml"), draft.text, draft.notes
        plan_gpus = 0 if asked.target.is_here else asked.target.gpus
    click.echo("\n".join(place(path, text)))
    for note in notes:
        click.echo(f"note: {note}", err=True)
    click.echo("\n".join(_next(shlex.quote(str(path)), plan_gpus)))


def _refuse_mixture(example: str, told: dict[str, Any]) -> None:
    if told:
        flags = ", ".join("--" + name.replace("_", "-") for name in told)
        raise BenchError(
            f"{example} is taken for the name of a shipped sweep, which is written as it is: {flags} cannot change it. "
            "Remove one of the two; a glob for --data needs quotes, so that the shell leaves it alone."
        )


def _asked(told: dict[str, Any]) -> Asked:
    """Tell what the options ask for."""
    from bench.draft.sources import data_source, model_source
    from bench.draft.sweep_file import Asked
    from bench.draft.target import find_target
    from bench.machine.environment import machine_facts
    from bench.sweep.presets import PRESETS

    if "model" not in told:
        raise BenchError(f"--model is missing. Add it, with one of {', '.join(PRESETS)}, or a config.json.")
    if "global_batch_size" not in told:
        raise BenchError(
            "--global-batch-size is missing. Add it: the sequences of one update of your run, over all GPUs."
        )
    device: Literal["cpu", "cuda"] | None = told.get("device")
    return Asked(
        model=model_source(told["model"]),
        data=data_source(told.get("data", "stdlib")),
        global_batch_size=told["global_batch_size"],
        target=find_target(device, told.get("gpu"), told.get("gpus"), machine_facts),
        seq_len=told.get("seq_len"),
        name=told.get("name"),
    )


def _as_written(ctx: click.Context, told: dict[str, Any]) -> list[str]:
    """Write the options again, in the order of the help."""
    named = [parameter for parameter in ctx.command.params if parameter.name in told]
    return [word for parameter in named for word in (parameter.opts[0], str(told[parameter.name or ""]))]


def _examples(width: int) -> list[str]:
    """List the shipped sweeps with what each asks, and how to go on."""
    from bench.draft.shipped import questions

    lines = ["Shipped sweeps:"]
    known = questions()
    indent = max(map(len, known)) + 4
    for name, question in known.items():
        lines += hang(f"  {name}".ljust(indent), question, width)
    return [
        *lines,
        "",
        "bench init quickstart        writes quickstart.yaml into this folder",
        "bench init --model NAME ...  writes a new one for your model, data and machine; see bench init --help",
    ]


def _next(path: str, plan_gpus: int) -> list[str]:
    """Say what to do with the file; `plan_gpus` are those of another machine."""
    commands = {
        f"bench plan {path}" + (f" --gpus {plan_gpus}" if plan_gpus else ""): "shows what would run",
        f"bench check {path}": "proves that accumulation makes the same update",
        f"bench sweep {path}": "measures",
    }
    column = max(map(len, commands)) + 3
    heading = "next, the last two on the machine with the GPUs:" if plan_gpus else "next:"
    return [heading, *(f"  {command.ljust(column)}{what}" for command, what in commands.items())]
