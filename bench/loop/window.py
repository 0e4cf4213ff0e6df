"""The window: forward and backward of each micro-batch, gradients accumulating.

The update that a window ends in must not depend on how its examples are cut into micro-batches. So each micro-batch
adds the *sum* of its losses, divided by the number of units of the whole window over all ranks. Dividing each
micro-batch's mean by their number is right only when all have the same number of units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from bench.loop.observer import Observer
from bench.loop.plan import WindowPlan
from bench.loop.precision import Precision
from bench.loop.sync import GradientSync


class OnHost(Protocol):
    """A micro-batch that waits on the host and can be moved to a device."""

    def to(self, device: torch.device) -> Any:
        """Copy to the device, without waiting for the copy."""


MicroBatchT = TypeVar("MicroBatchT", bound=OnHost)

LossSum = Callable[[nn.Module, Any], Tensor]
"""(model, micro-batch on the device) -> 0-d loss summed over the micro-batch's units."""


def accumulate_window(
    plan: WindowPlan,
    micro_batches: Sequence[OnHost],
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
    for index, waiting in enumerate(micro_batches):
        micro_batch = waiting.to(device)
        with sync.micro_step(is_last=index == len(micro_batches) - 1):
            observer.phase_begin("forward")
            with precision.autocast():
                loss = loss_sum(sync.model, micro_batch)
            observer.phase_begin("backward")
            precision.scale(loss * plan.loss_weight).backward()  # type: ignore[no-untyped-call]
        total.add_(loss.detach())
        observer.micro_step_end()
    return total
