"""The window: forward and backward of each micro-batch, gradients accumulating.

The update that a window ends in must not depend on how its examples are cut into micro-batches. So each micro-batch
adds the *sum* of its losses, divided by the number of units of the whole window over all ranks. Dividing each
micro-batch's mean by their number is right only when all have the same number of units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bench.loop.buffered import Window
from bench.loop.fitness import refuse_constant_loss
from bench.loop.observer import Observer
from bench.loop.precision import Precision
from bench.loop.sync import GradientSync

LossSum = Callable[[nn.Module, Any], Tensor]
"""(model, micro-batch on the device) -> 0-d loss summed over the micro-batch's units."""


def accumulate_window(
    window: Window,
    loss_sum: LossSum,
    precision: Precision,
    sync: GradientSync,
    device: torch.device,
    observer: Observer,
) -> Tensor:
    """Accumulate the gradients of one window; return the loss summed over this rank's units, 0-d float64 [one rank].

    Gradients must be None or zero before. One micro-batch at a time moves to the device: a whole window there would
    undo what accumulation saves. Forward and backward of all but the last micro-batch run without gradient
    synchronisation. Reads nothing from the device.
    """
    total = torch.zeros((), dtype=torch.float64, device=device)
    loss_weight = window.plan.loss_weight
    micro_steps = 0
    for waiting, is_last in window:
        micro_batch = to_device(waiting, device)
        with sync.micro_step(is_last):
            observer.phase_begin("forward")
            with precision.autocast():
                loss = loss_sum(sync.model, micro_batch)
            refuse_constant_loss(sync.model, loss)
            observer.phase_begin("backward")
            precision.scale(loss * loss_weight).backward()  # type: ignore[no-untyped-call]
        total.add_(loss.detach())
        del waiting, micro_batch  # or it would stay beside the next one and the one read ahead
        micro_steps += 1
        observer.micro_step_end()
    sync.finish(window.plan, micro_steps)
    return total


def to_device(micro_batch: Any, device: torch.device) -> Any:
    """Copy a micro-batch to the device without waiting: anything with a `to`, or a tuple, list or dict of such."""
    if hasattr(micro_batch, "to"):
        return micro_batch.to(device, non_blocking=True)
    if isinstance(micro_batch, tuple | list):
        return type(micro_batch)(to_device(item, device) for item in micro_batch)
    if isinstance(micro_batch, dict):
        return {key: to_device(item, device) for key, item in micro_batch.items()}
    return micro_batch
