"""Run a training step through one case under the watch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from bench.check.cases import Case, deal, planned_windows
from bench.check.optimizers import make_optimizer, make_schedule, norm_of
from bench.check.oracle import Batch, rows_of, set_concatenated_gradients
from bench.check.step import Step
from bench.check.subject import Subject
from bench.check.watch import Watch


@dataclass(frozen=True)
class Watched:
    """State what one case showed."""

    case: Case
    watch: Watch
    windows: list[list[Batch]]
    own: list[Batch]
    """Micro-batches of this rank."""
    steps: int
    """Accumulation steps on each rank."""
    schedule_steps: int | None
    """Times the schedule was stepped; None without one."""

    @property
    def is_clipped(self) -> bool:
        """Tell whether the step was to clip."""
        return math.isfinite(self.watch.clip_norm)

    @property
    def sequences(self) -> int:
        """Count the sequences of the data set."""
        return sum(len(rows_of(window)) for window in self.windows)


def run_case(
    case: Case,
    subject: Subject,
    step: Step,
    *,
    world_size: int = 1,
    rank: int = 0,
    implementation: str = "for_loop",
    weight_decay: float = 0.1,
) -> Watched:
    """Train a fresh copy of the model in float64 on one case, watching every optimizer step [one rank]."""
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
        clip_norm = 0.5 * min(_norm(reference, window, weights) for window in windows)
    watch = Watch(
        model,
        optimizer,
        reference,
        make_optimizer(case.optimizer, reference, weight_decay=weight_decay),
        windows,
        weights,
        clip_norm,
    )
    try:
        step.train(model, optimizer, own, steps, clip_norm, schedule)
    finally:
        watch.close()
    return Watched(
        case, watch, windows, own, steps, schedule.last_epoch if schedule is not None and case.is_bounded else None
    )


def _norm(model: nn.Module, window: list[Batch], class_weights: torch.Tensor | None) -> float:
    set_concatenated_gradients(model, window, class_weights)
    return norm_of([parameter.grad for parameter in model.parameters() if parameter.grad is not None])
