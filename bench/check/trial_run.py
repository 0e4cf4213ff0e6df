"""Run a training step through one case under the watch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from bench.check.cases import Case, deal, planned_windows
from bench.check.optimizers import make_optimizer, make_schedule, norm_of
from bench.check.oracle import Batch, rows_of, set_concatenated_gradients, units_of
from bench.check.step import Step
from bench.check.subject import Subject
from bench.check.watch import Watch


@dataclass(frozen=True)
class Watched:
    """State what one case showed."""

    case: Case
    watch: Watch
    windows: list[list[Batch]]
    """Of one pass, those without any target too."""
    own: list[Batch]
    """Micro-batches of this rank."""
    steps: int
    """Accumulation steps on each rank."""
    schedule_steps: int | None
    """Times the schedule was stepped; None without one."""
    is_clipped: bool
    """Whether the step was to clip."""

    @property
    def sequences(self) -> list[int]:
        """Count the sequences with a target of each window."""
        return [sum(units_of([row]) > 0 for row in rows_of(window)) for window in self.windows]

    @property
    def updates(self) -> int:
        """Count the updates to make in all passes: one per window with a target."""
        return len(self.watch.planned)


def run_case(
    case: Case,
    subject: Subject,
    step: Step,
    *,
    world_size: int = 1,
    rank: int = 0,
    implementation: str = "for_loop",
    weight_decay: float = 0.1,
    own_clip: float = math.inf,
) -> Watched:
    """Train a fresh copy of the model in float64 on one case, watching every optimizer step [one rank].

    `own_clip` is what the step clips to without being asked; where it is asked too, the smaller counts.
    """
    micro_batches = case.micro_batches(subject.vocab_size, subject.seed)
    steps = case.steps_on(world_size)
    windows = planned_windows(micro_batches, steps, world_size)
    own = deal(micro_batches, world_size, rank)
    model, reference = subject.fresh(), subject.fresh()
    optimizer = make_optimizer(case.optimizer, model, implementation, weight_decay)
    # A step that takes a schedule always gets one; where nothing is bounded it is constant.
    schedule = make_schedule(optimizer, case.is_bounded) if "schedule" in step.takes else None
    clip_norm = math.inf
    weights = None if subject.class_weights is None else subject.class_weights.double()
    if case.is_bounded and "clip_norm" in step.takes:
        clip_norm = 0.5 * min(_norm(reference, window, weights) for window in windows if units_of(window, weights))
    watch = Watch(
        model,
        optimizer,
        reference,
        make_optimizer(case.optimizer, reference, weight_decay=weight_decay),
        windows * case.passes,
        weights,
        min(clip_norm, own_clip),
        case.passes,
    )

    @contextmanager
    def call(first: int, count: int, batches: list[Batch]) -> Iterator[list[Batch]]:
        """Hand over copies, so that the reference's data are out of reach."""
        copies = [(inputs.clone(), targets.clone()) for inputs, targets in batches]
        parts = {first + window: copies[window * steps : (window + 1) * steps] for window in range(count)}
        watch.begin_call(first, count, parts if world_size == 1 else {})
        yield list(copies)
        watch.end_call()

    try:
        step.train(model, optimizer, own, steps, clip_norm, schedule, case.passes, len(windows), call)
    finally:
        watch.close()
    return Watched(
        case,
        watch,
        windows,
        own,
        steps,
        schedule.last_epoch if schedule is not None and case.is_bounded else None,
        math.isfinite(clip_norm),
    )


def _norm(model: nn.Module, window: list[Batch], class_weights: torch.Tensor | None) -> float:
    set_concatenated_gradients(model, window, class_weights)
    return norm_of([parameter.grad for parameter in model.parameters() if parameter.grad is not None])
