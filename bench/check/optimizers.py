"""Optimizers of the proof: rates at which a wrong gradient shows at once."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from bench.workload.build import IMPLEMENTATION_FLAGS

LR = {"sgd": 0.1, "adamw": 0.01}
ADAMW_EPS = 1e-4
"""AdamW divides by the root of the second moment plus eps. With the usual 1e-8 a gradient that is zero by analysis, and
a rounding error of 1e-17 in every correct program, would move its parameter by 1e-9 of a step, another way in each."""
LR_WARMUP_UPDATES = 8


def make_optimizer(
    name: str, model: nn.Module, implementation: str = "for_loop", weight_decay: float = 0.1
) -> Optimizer:
    """Make SGD with momentum, or AdamW with an eps of 1e-4, over the trainable parameters."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    flags: dict[str, Any] = IMPLEMENTATION_FLAGS[implementation]
    if name == "sgd":
        return SGD(parameters, lr=LR[name], momentum=0.9, weight_decay=weight_decay, **flags)
    return AdamW(parameters, lr=LR[name], weight_decay=weight_decay, eps=ADAMW_EPS, **flags)


def make_schedule(optimizer: Optimizer, is_warmup: bool) -> LambdaLR:
    """Make a schedule that climbs by an eighth of the rate per step, or a constant one."""
    return LambdaLR(optimizer, lr_factor if is_warmup else lambda steps: 1.0)


def lr_factor(steps: int) -> float:
    """Give the factor on the rate after so many steps of the schedule."""
    return min(1.0, (steps + 1) / LR_WARMUP_UPDATES)


def norm_of(tensors: list[torch.Tensor]) -> float:
    """Give the norm of all tensors laid end to end, added up in float64."""
    return math.sqrt(sum(float(tensor.detach().double().square().sum()) for tensor in tensors))
