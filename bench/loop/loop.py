"""One window after another: accumulate, update."""

from __future__ import annotations

from typing import Literal

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from bench.loop.buffered import Window
from bench.loop.observer import NoObserver, Observer, UpdateResult
from bench.loop.precision import Precision
from bench.loop.sync import GradientSync
from bench.loop.update import apply_update, optimizer_parameters
from bench.loop.window import LossSum, accumulate_window

ScheduleUnit = Literal["update", "epoch", "validation"]


class AccumulationLoop:
    """Train by windows: up to A micro-batches and the one update that ends them [one rank].

    Needs only torch: a model inside `sync`, its optimizer, and `loss_sum(model, micro_batch)`, which returns the loss
    *summed* over the micro-batch's units. The window brings the number of units over all its micro-batches and ranks.

    Args:
        sync: Holds the model and knows the ranks.
        optimizer: Steps the model's parameters; gradients are clipped over these.
        loss_sum: For instance `bench.loop.losses.SummedCrossEntropy()`.
        precision: The AMP mode.
        device: Where the model is, and each micro-batch goes.
        clip_norm: Largest norm of the accumulated gradient over all ranks; None does not clip.
        schedule: Learning-rate schedule, advanced here and nowhere else.
        schedule_unit: What advances it: an applied update, `epoch_end()` or `validation_end()`; never a micro-batch.
        observer: Watches.

    Raises:
        ValueError: fp16 with parameters stored in float16, which the gradient scaler refuses.
    """

    def __init__(
        self,
        sync: GradientSync,
        optimizer: Optimizer,
        loss_sum: LossSum,
        precision: Precision,
        device: torch.device,
        *,
        clip_norm: float | None = None,
        schedule: LRScheduler | None = None,
        schedule_unit: ScheduleUnit = "update",
        observer: Observer | None = None,
    ) -> None:
        precision.check(optimizer_parameters(optimizer))
        self.sync = sync
        self.optimizer = optimizer
        self.loss_sum = loss_sum
        self.precision = precision
        self.device = device
        self.clip_norm = clip_norm
        self.schedule = schedule
        self.schedule_unit = schedule_unit
        self.observer: Observer = observer or NoObserver()
        self.next_update = 0
        """Number of the update after the last completed one."""
        self.micro_batches_done = 0
        """Micro-batches of this rank in all completed windows: where its data go on after a resume."""
        self.is_inside_window = False
        """True from a window's start to its end, and after an error in between: gradients are those of a part of it."""

    def run_window(self, window: Window) -> UpdateResult:
        """Accumulate one window and make its update; gradients of an earlier window never leak in [one rank].

        A window without any unit on any rank changes nothing, not even by weight decay or momentum: it is empty.
        """
        plan = window.plan
        lr, loss_scale = float(self.optimizer.param_groups[0]["lr"]), self.precision.loss_scale
        self.is_inside_window = True
        self.observer.window_begin(plan)
        self.optimizer.zero_grad(set_to_none=True)
        loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)
        if plan.is_streamed or not plan.is_empty:
            loss_sum = accumulate_window(window, self.loss_sum, self.precision, self.sync, self.device, self.observer)
            self.observer.phase_begin("update")
            plan = window.settle()
        if plan.is_empty:
            self.optimizer.zero_grad(set_to_none=True)
            result = UpdateResult(plan, "empty", loss_sum, None, lr, loss_scale)
        else:
            schedule = self.schedule if self.schedule_unit == "update" else None
            outcome, grad_norm = apply_update(plan, self.optimizer, self.precision, self.clip_norm, schedule)
            result = UpdateResult(plan, outcome, loss_sum, grad_norm, lr, loss_scale)
        self.next_update = plan.update + 1
        self.micro_batches_done += plan.this_rank.micro_batches
        self.is_inside_window = False
        self.observer.update_end(result)
        return result

    def epoch_end(self) -> None:
        """Advance a schedule whose unit is the epoch."""
        if self.schedule is not None and self.schedule_unit == "epoch":
            self.schedule.step()

    def validation_end(self, validation_loss: float) -> None:
        """Advance a schedule whose unit is the validation, such as ReduceLROnPlateau, by its loss."""
        if self.schedule is not None and self.schedule_unit == "validation":
            self.schedule.step(validation_loss)  # type: ignore[arg-type]
