"""The loss of a micro-batch: a sum over its valid targets, never a mean.

The window's denominator is known only to the loop: a mean here would weigh short micro-batches like long ones.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from bench.workload.micro_batches import IGNORED_TARGET, MicroBatch


def sum_cross_entropy(model: nn.Module, micro_batch: MicroBatch) -> torch.Tensor:
    """Sum the cross-entropy of the next tokens over the valid targets [nats, this micro-batch].

    The log-softmax and the sum run in float32 at least, also for 16-bit logits under autocast; in float64 for a
    float64 model. A micro-batch without a valid target gives 0 and zero gradients.

    Args:
        model: Maps inputs (B, T) int64 to logits (B, T, V).
        micro_batch: On the model's device.

    Returns:
        () float32, or float64 for a float64 model; attached to the graph.
    """
    logits: torch.Tensor = model(micro_batch.inputs)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return functional.cross_entropy(
        logits.flatten(0, 1), micro_batch.targets.flatten(), ignore_index=IGNORED_TARGET, reduction="sum"
    )
