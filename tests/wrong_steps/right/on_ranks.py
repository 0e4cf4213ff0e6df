"""Counts and gradients added up over ranks by hand; right on one rank too."""

import torch
import torch.distributed as dist
from torch.nn import functional


def step(model, optimizer, micro_batches):
    units = torch.zeros((), dtype=torch.float64)
    for _, targets in micro_batches:
        units += (targets != -100).sum()
    if dist.is_initialized():
        dist.all_reduce(units)
    if units == 0:
        return
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for inputs, targets in micro_batches:
        loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
        (loss / units).backward()
    if dist.is_initialized():
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
    optimizer.step()
