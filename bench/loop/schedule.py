"""Learning rate as a function of applied updates."""

from __future__ import annotations

import math
from typing import Literal

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

ScheduleName = Literal["constant", "linear", "cosine"]


def lr_factor(name: ScheduleName, applied_updates: int, lr_warmup_updates: int, total_updates: int | None) -> float:
    """Give the factor on the base learning rate for the update after `applied_updates` applied ones.

    Rises linearly over the warm-up (the first update already moves), then stays, or falls to 0 at `total_updates`
    along a line or half a cosine (Loshchilov and Hutter 2017, without restarts).

    Raises:
        ValueError: A schedule that falls has no end.
    """
    if applied_updates < lr_warmup_updates:
        return (applied_updates + 1) / lr_warmup_updates
    if name == "constant":
        return 1.0
    if total_updates is None:
        raise ValueError(f"schedule {name} needs total_updates, the update at which the rate is zero.")
    progress = (applied_updates - lr_warmup_updates) / max(1, total_updates - lr_warmup_updates)
    progress = min(1.0, progress)
    return 1.0 - progress if name == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))


def make_schedule(
    optimizer: Optimizer, name: ScheduleName, lr_warmup_updates: int, total_updates: int | None
) -> LambdaLR:
    """Make the schedule; the loop advances it once per applied update."""
    return LambdaLR(optimizer, lambda applied: lr_factor(name, applied, lr_warmup_updates, total_updates))
