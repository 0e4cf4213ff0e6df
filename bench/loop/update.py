"""The update that ends a window: correct once, unscale once, clip once, step once."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from bench.loop.plan import WindowPlan
from bench.loop.precision import Precision


def apply_update(
    plan: WindowPlan,
    optimizer: Optimizer,
    precision: Precision,
    clip_norm: float | None,
    schedule: LRScheduler | None,
) -> tuple[Literal["applied", "skipped"], Tensor | None]:
    """Make one optimizer step from the accumulated gradients; return what happened and the norm before clipping.

    Order matters: gradients are summed over micro-batches and ranks, then unscaled, then brought from the nominal to
    the true denominator (streamed windows), then clipped; the scaler may skip the step when they overflowed; the
    schedule advances only when the step was applied, never per micro-batch.

    Raises:
        ValueError: No parameter of the optimizer has a gradient.
    """
    parameters = optimizer_parameters(optimizer)
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        raise ValueError(
            f"update {plan.update}: no parameter of the optimizer received a gradient. Give the optimizer the "
            "parameters that the loss depends on."
        )
    precision.unscale(optimizer)
    if plan.gradient_correction != 1.0:
        torch._foreach_mul_(gradients, plan.gradient_correction)
    norm = None if clip_norm is None else clip_grad_norm_(parameters, clip_norm)
    applied = precision.step(optimizer)
    if applied and schedule is not None:
        schedule.step()
    return ("applied" if applied else "skipped"), norm


def optimizer_parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    """List what the optimizer steps, which is what is clipped: the gradients that a window sets to none [one rank]."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
