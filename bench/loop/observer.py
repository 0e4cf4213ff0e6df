"""Observers of the loop. The loop does not know what they do; they do not change what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from bench.loop.plan import WindowPlan

Phase = Literal["forward", "backward", "update"]


@dataclass(frozen=True)
class UpdateResult:
    """State what one update did. Tensors stay on the device: reading them is the observer's choice of moment."""

    plan: WindowPlan
    """The window's plan, counts complete also when it was streamed."""
    result: Literal["applied", "skipped", "empty"]
    loss_sum: Tensor
    """Loss summed over this rank's units of the window, 0-d float64; the window's loss is the sum over ranks divided by
    `plan.all_ranks.units`."""
    grad_norm: Tensor | None
    """Norm of the accumulated, unscaled gradient over all ranks before clipping, 0-d; None without clipping."""
    lr: float
    """Learning rate this update used."""
    loss_scale: float | None
    """Scale of the loss through this window; None without a gradient scaler."""


class Observer(Protocol):
    """Watch the loop from outside; a method must not read from the device or synchronise it inside a window."""

    def window_begin(self, plan: WindowPlan) -> None:
        """Note that a window starts; its plan is known (the counts only when buffered), nothing has been fed."""

    def phase_begin(self, phase: Phase) -> None:
        """Note that forward, backward or the update starts."""

    def micro_step_end(self) -> None:
        """Note that forward and backward of one micro-batch of this rank are queued."""

    def update_end(self, result: UpdateResult) -> None:
        """Note that the update is queued."""


class NoObserver:
    """Watch nothing."""

    def window_begin(self, plan: WindowPlan) -> None:
        """Ignore the window."""

    def phase_begin(self, phase: Phase) -> None:
        """Ignore the phase."""

    def micro_step_end(self) -> None:
        """Ignore the micro-step."""

    def update_end(self, result: UpdateResult) -> None:
        """Ignore the update."""


class Observers:
    """Let several observers watch, in order."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def window_begin(self, plan: WindowPlan) -> None:
        """Pass on."""
        for observer in self._observers:
            observer.window_begin(plan)

    def phase_begin(self, phase: Phase) -> None:
        """Pass on."""
        for observer in self._observers:
            observer.phase_begin(phase)

    def micro_step_end(self) -> None:
        """Pass on."""
        for observer in self._observers:
            observer.micro_step_end()

    def update_end(self, result: UpdateResult) -> None:
        """Pass on."""
        for observer in self._observers:
            observer.update_end(result)
