"""Train on the same sequences cut differently: what a right step makes of them does not depend on the cut.

This sees what the reference of one update cannot: a rate that is set by hand, weights that are changed between updates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from bench.check.cases import Case
from bench.check.optimizers import make_optimizer, make_schedule, norm_of
from bench.check.oracle import Batch, concatenate, rows_of
from bench.check.step import Step
from bench.check.subject import Subject

_WINDOWS = ((9, 2, 5), (12, 3, 1))
_ROWS = Case("the same data", tuple((length,) for window in _WINDOWS for length in window), 1, "sgd")
_LR_TOLERANCE = 1e-12


@dataclass(frozen=True)
class _Cut:
    words: str
    sizes: tuple[int, ...]
    """Sequences of each micro-batch of a window."""
    is_called_per_window: bool = False
    """Whether a step that takes all windows gets one at a time."""


_CUTS = (
    _Cut("1 micro-batch per window", (3,)),
    _Cut("3 micro-batches per window", (1, 1, 1)),
    _Cut("2 unequal micro-batches per window", (2, 1)),
    _Cut("a call for each window", (3,), is_called_per_window=True),
)


@dataclass(frozen=True)
class CutResult:
    """State how far trainings on the same data, cut differently, come apart."""

    parameters: float
    """Norm of the largest difference, relative to the way of the parameters."""
    where: str
    """The two cuts of it."""
    rates: str
    """The first rates that differ, in a clause; empty where none do."""


def compare_cuts(step: Step, subject: Subject) -> CutResult:
    """Train on two windows in every cut, and compare the parameters after them and the rates of their updates."""
    cuts = [cut for cut in _CUTS if step.takes_all or not cut.is_called_per_window]
    start = [parameter.detach().clone() for parameter in subject.fresh().parameters()]
    runs = [_run(step, subject, cut) for cut in cuts]
    first, first_rates = runs[0]
    way = norm_of([mine - its for mine, its in zip(first, start, strict=True)])
    worst, where, rates = 0.0, "", ""
    for cut, (parameters, own_rates) in zip(cuts[1:], runs[1:], strict=True):
        difference = norm_of([mine - its for mine, its in zip(parameters, first, strict=True)])
        error = math.inf if not math.isfinite(difference) else difference / way if way > 0 else difference
        if error > worst:
            worst, where = error, f"{cuts[0].words} and {cut.words}"
        if not rates:
            rates = _unlike(first_rates, own_rates, cuts[0].words, cut.words)
    return CutResult(worst, where, rates)


def _unlike(some: list[float], others: list[float], words: str, other_words: str) -> str:
    for update, (one, other) in enumerate(zip(some, others, strict=False)):
        if abs(one - other) > _LR_TOLERANCE:
            return f"update {update} used {one:g} with {words}, and {other:g} with {other_words}"
    return ""


def _run(step: Step, subject: Subject, cut: _Cut) -> tuple[list[torch.Tensor], list[float]]:
    model = subject.fresh()
    optimizer = make_optimizer("sgd", model)
    schedule = make_schedule(optimizer, is_warmup=False) if "schedule" in step.takes else None
    rates: list[float] = []
    handle = optimizer.register_step_pre_hook(lambda *_: rates.append(float(optimizer.param_groups[0]["lr"])))
    parts = _micro_batches(subject, cut)
    steps = len(cut.sizes)
    try:
        for data in [parts[:steps], parts[steps:]] if cut.is_called_per_window else [parts]:
            step.train(model, optimizer, data, steps, math.inf, schedule, around=_copies)
    finally:
        handle.remove()
    return [parameter.detach().clone() for parameter in model.parameters()], rates


@contextmanager
def _copies(_: int, __: int, micro_batches: list[Batch]) -> Iterator[list[Batch]]:
    yield [(inputs.clone(), targets.clone()) for inputs, targets in micro_batches]


def _micro_batches(subject: Subject, cut: _Cut) -> list[Any]:
    rows = rows_of(_ROWS.micro_batches(subject.vocab_size, subject.seed))
    parts = []
    for _ in _WINDOWS:
        for size in cut.sizes:
            parts.append(concatenate(rows[:size]))
            rows = rows[size:]
    return parts
