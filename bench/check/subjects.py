"""The model that a proof is made on: a preset, reduced where it is large, or what the user's factory builds."""

from __future__ import annotations

from typing import Any

import psutil
import torch
from torch import Tensor, nn

from bench.check.problem import Problem
from bench.check.reduced import reduced
from bench.check.step import load
from bench.errors import BenchError
from bench.sweep.presets import PRESETS
from bench.workload.build import build_model

_COPIES = 10
"""float64 copies of the parameters that a proof holds at its peak: weights, gradients, two moments and a snapshot of
model and reference, and temporaries."""
_SHARE_OF_MEMORY = 0.7


class TooLarge(Exception):
    """Say that a model cannot be proved on this machine."""


def make_problem(model: str, seed: int, activation_checkpointing: bool = False, param_dtype: str = "fp32") -> Problem:
    """Build a preset, or call `package.module:function`.

    A function returns a model, or a mapping with the keys model and class_weights. The model maps inputs (B, T) int64
    to logits (B, T, C).

    Raises:
        BenchError: The factory cannot be imported, raises, or returns the wrong thing.
        TooLarge: Its float64 state does not fit into the free memory.
    """
    if ":" in model:
        return _problem_of_user(model)
    if model not in PRESETS:
        raise BenchError(f"--model = {model} is neither a preset ({', '.join(PRESETS)}) nor package.module:function.")
    shape, note = reduced(PRESETS[model])
    hollow = build_model(shape, seed, activation_checkpointing, param_dtype, device="meta")
    _refuse_too_large(sum(parameter.numel() for parameter in hollow.parameters()), model, note)
    built = build_model(shape, seed, activation_checkpointing, param_dtype)
    return Problem(built, shape.vocab_size, note=note)


def _problem_of_user(reference: str) -> Problem:
    factory = load(reference, "--model")
    if not callable(factory):
        raise BenchError(f"--model = {reference} is a {type(factory).__name__}, not a function.")
    try:
        built: Any = factory()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise BenchError(f"--model = {reference} raised {type(error).__name__}: {error}") from error
    parts = built if isinstance(built, dict) else {"model": built}
    model, class_weights = parts.get("model"), parts.get("class_weights")
    if not isinstance(model, nn.Module):
        raise BenchError(f"--model = {reference} returned {type(built).__name__}, not a torch.nn.Module.")
    if class_weights is not None and not isinstance(class_weights, Tensor):
        raise BenchError(f"--model = {reference}: class_weights is {type(class_weights).__name__}, not a tensor.")
    parameters = [parameter.numel() for parameter in model.parameters()]
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise BenchError(f"--model = {reference} returned a model without a trainable parameter.")
    _refuse_too_large(sum(parameters), reference, "")
    return Problem(model.cpu(), _classes(model, reference), class_weights)


def _classes(model: nn.Module, reference: str) -> int:
    """Ask the model how many classes it tells apart."""
    inputs = torch.zeros((2, 3), dtype=torch.int64)
    try:
        with torch.no_grad():
            logits: Any = model(inputs)
    except Exception as error:
        raise BenchError(
            f"--model = {reference}: the model cannot take inputs (2, 3) int64: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(logits, Tensor) or logits.shape[:2] != inputs.shape or logits.dim() != 3:
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise BenchError(f"--model = {reference}: the model gave {shape} for inputs (2, 3), not logits (2, 3, C).")
    return int(logits.shape[-1])


def _refuse_too_large(parameters: int, name: str, note: str) -> None:
    needed, free = parameters * 8 * _COPIES, psutil.virtual_memory().available
    if needed > _SHARE_OF_MEMORY * free:
        raise TooLarge(
            f"{name}{f' ({note})' if note else ''} has {parameters:,} parameters: its proof in float64 takes about "
            f"{needed / 2**30:.0f} GiB, and {free / 2**30:.0f} GiB of this machine's memory are free"
        )
