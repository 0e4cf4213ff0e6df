"""When accumulation is not a larger batch: layers that couple the examples of a micro-batch, and active randomness.

Equality with the concatenated batch is not claimed for a model that is named here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm


def batch_coupled_layers(model: nn.Module) -> list[str]:
    """Name the layers in training mode whose output or statistics depend on how a batch is cut, one sentence each.

    BatchNorm and kin (SyncBatchNorm, lazy ones) normalise by the statistics of the micro-batch. InstanceNorm normalises
    each example by itself, but its running statistics, where kept, move once a micro-batch.
    """
    sentences = []
    for name, module in model.named_modules():
        kind = type(module).__name__
        if not module.training:
            continue
        if isinstance(module, _InstanceNorm):
            if module.track_running_stats:
                sentences.append(f"{name} ({kind}) updates its running statistics once per micro-batch")
        elif isinstance(module, _BatchNorm):
            sentences.append(f"{name} ({kind}) normalises by the statistics of each micro-batch, not of the window")
    return sentences


def random_layers(model: nn.Module) -> list[str]:
    """Name the layers in training mode that draw random numbers, one sentence each: dropout of any kind, RReLU."""
    return [
        f"{name} ({type(module).__name__}) draws new random numbers for each micro-batch"
        for name, module in model.named_modules()
        if module.training and _draws(module)
    ]


def _draws(module: nn.Module) -> bool:
    if isinstance(module, _DropoutNd):
        return module.p > 0
    if isinstance(module, nn.RNNBase):
        return module.dropout > 0 and module.num_layers > 1
    if isinstance(module, nn.MultiheadAttention):
        return bool(module.dropout > 0)
    return isinstance(module, nn.RReLU)


def forward_is_random(loss_sum: Callable[[nn.Module, Any], Tensor], model: nn.Module, micro_batch: Any) -> bool:
    """Tell whether two forwards of one micro-batch differ by the seed alone: finds functional dropout too [one rank].

    Runs without gradients and leaves buffers and random generators as they were. Waits for the device.
    """
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    devices = sorted({p.device.index for p in model.parameters() if p.device.type == "cuda"})
    losses = []
    with torch.no_grad(), torch.random.fork_rng(devices):
        for seed in (0, 1):
            torch.manual_seed(seed)
            losses.append(loss_sum(model, micro_batch).clone())
            for name, buffer in model.named_buffers():
                buffer.copy_(buffers[name])
    return not torch.equal(losses[0], losses[1])
