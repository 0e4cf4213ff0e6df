"""The update that ends a window: unscale once, clip once, step once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from bench.loop.precision import Precision


def apply_update(
    parameters: Iterable[nn.Parameter],
    optimizer: Optimizer,
    precision: Precision,
    clip_norm: float | None,
    schedule: LRScheduler | None,
) -> tuple[Literal["applied", "skipped"], Tensor | None]:
    """Make one optimizer step from the accumulated gradients; return what happened and the norm before clipping.

    Order matters: gradients are summed over micro-batches and ranks, then unscaled, then clipped; the scaler may skip
    the step when they overflowed; the schedule advances only when the step was applied, never per micro-batch.
    """
    precision.unscale(optimizer)
    norm = None if clip_norm is None else clip_grad_norm_(parameters, clip_norm)
    applied = precision.step(optimizer)
    if applied and schedule is not None:
        schedule.step()
    return ("applied" if applied else "skipped"), norm
