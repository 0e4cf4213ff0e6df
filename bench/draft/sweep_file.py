"""Write a sweep file for a model, data and a machine: what is asked for, sensible axes, and why each is there.

The file is meant to be read and changed by somebody who never saw one. What it holds is checked as flags are, before
any of it is written.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from bench.draft.sizes import listed_sizes, shared_batches, time_limits, update_flops, world_sizes
from bench.draft.sources import Source
from bench.draft.target import Target
from bench.errors import BenchError
from bench.sweep.fields import LARGEST_SEARCHED, TrialConfig
from bench.sweep.flags import sweep_from_flags
from bench.sweep.models import model_name, shape_of
from bench.sweep.trial import show_value
from bench.units import counted

SCHEMA_LINE = "# yaml-language-server: $schema=./schema.json\n"
"""First line of a sweep file: where editors find what its keys mean."""

_SEQ_LEN = {"cpu": 128, "cuda": 2048}
"""Length of a sequence that nobody chose, where the model takes it [tokens]."""
_COLUMN = 44
"""Where the comments beside the settings begin."""
_WIDTH = 118
_INDENT = "  "


@dataclass(frozen=True)
class Asked:
    """Hold what a sweep file is asked for."""

    model: Source
    data: Source
    global_batch_size: int
    """Sequences per update, all ranks."""
    target: Target
    seq_len: int | None = None
    """Most tokens of a sequence; null leaves the choice open."""
    name: str | None = None
    """Name of the sweep; null leaves the choice open."""


@dataclass(frozen=True)
class Draft:
    """Hold a sweep file that is not written yet."""

    name: str
    text: str
    notes: tuple[str, ...]
    """What the asked-for numbers rule out, a sentence each."""


def draft_sweep(asked: Asked, command: str) -> Draft:
    """Write the text of a sweep file.

    Args:
        asked: what it is for.
        command: what made it, for its head.

    Raises:
        BenchError: Settings are wrong, one line each, named by their option.
    """
    config, name = _checked(asked)
    shape = shape_of(config.model)
    flops = None if shape is None else update_flops(shape, asked.global_batch_size, config.seq_len)
    sizes, left_out = world_sizes(asked.target.gpus or 1, asked.global_batch_size)
    varied = "micro-batch, AMP mode and number of GPUs" if len(sizes) > 1 else "micro-batch and AMP mode"
    limits = None if flops is None else time_limits(asked.target.device, flops)
    notes = []
    if left_out:
        batches = _either(shared_batches(asked.global_batch_size, left_out[-1]))
        notes.append(f"{_left_out(asked, left_out)} With --global-batch-size {batches} one would.")
    if flops is not None and limits is not None and not asked.target.gpus:
        notes.append(
            f"an update of {flops / 1e12:,.3g} TFLOP is long for a CPU. For a first look take a smaller model, "
            "--global-batch-size or --seq-len; for the machine of your run name it, as in --gpu a100-80gb --gpus 8."
        )
    lines = [
        *_head(asked, config, varied, name, command),
        *_base(asked, config),
        *_beside("axes:", "every combination is a trial: take out what you would not use"),
        *_world_size_axis(sizes, _left_out(asked, left_out) if left_out else ""),
        *_amp_mode_axis(asked.target),
        *_micro_batch_size_axis(asked),
        *_measure(limits),
    ]
    return Draft(name, SCHEMA_LINE + "\n".join(lines) + "\n", tuple(notes))


def _checked(asked: Asked) -> tuple[TrialConfig, str]:
    """Check the settings together as those of one trial, and choose what was left open."""
    model = re.sub(r"[^A-Za-z0-9_-]+", "-", asked.model.name or next(iter(asked.model.section.values())))
    name = asked.name if asked.name is not None else f"{model}-{asked.target.name}"
    settings = {
        "model": asked.model.section,
        "data": asked.data.section,
        "global_batch_size": asked.global_batch_size,
        # A default that the configuration rules out would be a fault of nobody's.
        "seq_len": asked.seq_len if asked.seq_len is not None else asked.model.longest,
    }
    config = sweep_from_flags(settings, {}, name).spec.base
    if asked.seq_len is None:
        shape, usual = shape_of(config.model), _SEQ_LEN[asked.target.device]
        longest = asked.model.longest if shape is None else shape.max_seq_len
        config = config.model_copy(update={"seq_len": min(longest or usual, usual)})
    _check_data(asked.data, config, asked.model.vocab_size)
    return config, name


def _check_data(data: Source, config: TrialConfig, vocab_size: int) -> None:
    """Refuse data that every launch would refuse; a vocabulary of 0 is not known."""
    shape, given = shape_of(config.model), next(iter(data.section.values()))
    takes = vocab_size if shape is None else shape.vocab_size
    if takes and data.vocab_size > takes:
        raise BenchError(
            f"--data = {given} has token ids up to {data.vocab_size - 1}, but --model {model_name(config.model)} takes "
            f"ids below {takes}. Use a model with a larger vocabulary, or data with smaller ids."
        )
    if data.tokens is not None and data.tokens <= config.seq_len:
        raise BenchError(
            f"--data = {given} has {counted(data.tokens, 'token')}, too few for one sequence of --seq-len "
            f"{config.seq_len} and its last target. Use more data or a shorter --seq-len."
        )


def _left_out(asked: Asked, left_out: list[int]) -> str:
    """Say which numbers of GPUs cannot share the global batch equally."""
    batch = asked.global_batch_size
    return f"A global batch of {batch} is no multiple of {_either(left_out)}: no trial has as many GPUs."


def _either(numbers: list[int]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} or {last}" if most else last


def _beside(setting: str, comment: str) -> list[str]:
    """Write a setting with its comment beside it, or above where that is too wide."""
    line = f"{setting.ljust(_COLUMN - 2)}  # {comment}"
    if not comment:
        return [setting]
    indent = " " * (len(setting) - len(setting.lstrip()))
    return [line] if len(line) <= _WIDTH else [*_remark(comment, indent), setting]


def _remark(text: str, indent: str = "") -> list[str]:
    """Write a comment of its own, in as many lines as it takes."""
    start = f"{indent}# "
    return textwrap.wrap(
        text, _WIDTH, initial_indent=start, subsequent_indent=start, break_long_words=False, break_on_hyphens=False
    )


def _head(asked: Asked, config: TrialConfig, varied: str, name: str, command: str) -> Iterator[str]:
    batch = counted(asked.global_batch_size, "sequence")
    yield from _remark(
        f"Question: for {model_name(config.model)} at a global batch of {batch}, which {varied} is fastest on "
        f"{asked.target.words}, and what memory does it take?"
    )
    yield "#"
    yield f"# Written by: {command}"
    yield from _remark("Change what you like: `bench plan` shows what would run, and names each mistake with its line.")
    yield "format: 1"
    yield from _beside(f"name: {_quoted(name)}", f"results go to results/{name}/")


def _base(asked: Asked, config: TrialConfig) -> Iterator[str]:
    target, shape = asked.target, shape_of(config.model)
    most = asked.model.longest if shape is None else shape.max_seq_len
    longest = "" if most is None else f", at most {most:,} here"
    settings = {
        f"device: {target.device}": "" if target.gpus else "no GPU is used, also where there is one",
        f"model: {asked.model.flow}": asked.model.comment,
        f"data: {asked.data.flow}": asked.data.comment,
        f"seq_len: {config.seq_len}": f"tokens of a sequence{longest}; take that of your run",
        f"global_batch_size: {asked.global_batch_size}": "sequences per update, all ranks; accumulation steps follow",
        "optimizer: {name: adamw, lr: 3.0e-4}": "lr moves the loss, not the speed",
    }
    yield from _beside("base:", "every trial starts from these")
    for setting, comment in settings.items():
        yield from _beside(f"  {setting}", comment)


def _world_size_axis(sizes: list[int], left_out: str) -> Iterator[str]:
    if len(sizes) > 1:
        question = "How much does each further GPU bring? The update stays the same: accumulation steps become fewer."
        yield from _remark(f"{question} {left_out}".rstrip(), _INDENT)
        yield f"  world_size: {sizes}"
    elif left_out:
        yield from _remark(left_out, _INDENT)


def _amp_mode_axis(target: Target) -> Iterator[str]:
    modes = target.amp_modes
    said = "; ".join(f"{mode} {what}" for mode, what in modes.items())
    without = "" if target.has_ampere else " These GPUs, older than Ampere, have no units for tf32 and bf16."
    yield from _remark(f"How much does lower precision bring? {said}.{without}", _INDENT)
    yield f"  amp_mode: [{', '.join(modes)}]"


def _micro_batch_size_axis(asked: Asked) -> Iterator[str]:
    batch = asked.global_batch_size
    if asked.target.gpus and batch > 1:
        yield from _remark(
            "Which is the largest that fits? A few launches find it among the sizes that divide. Or list: [1, 2, 4].",
            _INDENT,
        )
        yield f"  micro_batch_size: {{max: {min(batch, LARGEST_SEARCHED)}}}"
        if "factory" in asked.model.section:
            return
        yield from _remark(
            "Does computing each block twice, to keep less of it, pay off by a larger micro-batch? Twice the trials:",
            _INDENT,
        )
        yield "  # activation_checkpointing: [false, true]"
        return
    yield from _remark("Where does a larger micro-batch stop paying off? It takes more memory.", _INDENT)
    yield f"  micro_batch_size: {listed_sizes(batch)}"


def _measure(limits: tuple[int, int] | None) -> Iterator[str]:
    yield from _remark(
        "A launch goes on until its mean speed is known to 2 % or its time is up; rounds tell how far launches of one "
        "trial differ. To settle what is close, take preset normal (0.5 %) and more rounds."
    )
    if limits is None:
        yield "measure: {preset: quick, rounds: 3}"
        return
    start_s, launch_s = limits
    yield from _remark(
        "Updates are long here: the limits of the first update and of a launch [s] are far above what these take."
    )
    yield f"measure: {{preset: quick, rounds: 3, start_timeout_s: {start_s}, timeout_s: {launch_s}}}"


def _quoted(name: str) -> str:
    """Quote a name that YAML would take for a number, a date or another word."""
    return f'"{name}"' if name[0].isdigit() else show_value(name)
