"""One window after another: plan, accumulate, update."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from bench.loop.observer import NoObserver, Observer, UpdateResult
from bench.loop.plan import WindowPlan
from bench.loop.precision import Precision
from bench.loop.sync import GradientSync
from bench.loop.update import apply_update
from bench.loop.window import LossSum, OnHost, accumulate_window


class AccumulationLoop:
    """Train by windows: up to A micro-batches and the one update that ends them [one rank].

    Needs only torch: a model inside `sync`, its optimizer, and `loss_sum(model, micro_batch)`, which returns the loss
    *summed* over the micro-batch's units. The plan brings the number of units of the whole window.
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
        observer: Observer | None = None,
    ) -> None:
        self.sync = sync
        self.optimizer = optimizer
        self.loss_sum = loss_sum
        self.precision = precision
        self.device = device
        self.clip_norm = clip_norm
        self.schedule = schedule
        self.observer: Observer = observer or NoObserver()

    def run_window(self, plan: WindowPlan, micro_batches: Sequence[OnHost]) -> UpdateResult:
        """Accumulate one window and make its update; gradients of an earlier window never leak in [one rank].

        A window without any unit on any rank changes nothing, not even by weight decay or momentum: it is empty.
        """
        lr, loss_scale = float(self.optimizer.param_groups[0]["lr"]), self.precision.loss_scale
        self.observer.window_begin(plan)
        self.optimizer.zero_grad(set_to_none=True)
        if plan.is_empty:
            zero = torch.zeros((), dtype=torch.float64, device=self.device)
            result = UpdateResult(plan, "empty", zero, None, lr, loss_scale)
        else:
            loss_sum = accumulate_window(
                plan, micro_batches, self.loss_sum, self.precision, self.sync, self.device, self.observer
            )
            self.observer.phase_begin("update")
            outcome, grad_norm = apply_update(
                self.sync.model.parameters(), self.optimizer, self.precision, self.clip_norm, self.schedule
            )
            result = UpdateResult(plan, outcome, loss_sum, grad_norm, lr, loss_scale)
        self.observer.update_end(result)
        return result
