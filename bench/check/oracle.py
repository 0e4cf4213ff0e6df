"""The answer to hold an accumulation against: one concatenated batch. Imports nothing of the loop.

The rows of all micro-batches and ranks of a window become one batch, padded at the end to the longest; the loss is
written out from logarithms and divided once by the units, which are added up in plain Python.
"""

# B = rows [sequences], T = tokens of the longest row, C = classes or vocabulary

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

IGNORED = -100
Batch = tuple[Tensor, Tensor]
"""Inputs (B, T) int64 and targets (B, T) int64 of one micro-batch; a target of -100 is ignored."""


def rows_of(batches: Sequence[Batch]) -> list[Batch]:
    """Take micro-batches apart into single sequences, each (1, T), without the padding at its end."""
    rows = []
    for inputs, targets in batches:
        for row_inputs, row_targets in zip(inputs, targets, strict=True):
            valid = (row_targets != IGNORED).nonzero()
            stop = int(valid[-1]) + 1 if len(valid) else 1
            rows.append((row_inputs[None, :stop], row_targets[None, :stop]))
    return rows


def concatenate(batches: Sequence[Batch]) -> Batch:
    """Lay all rows into one batch; what is filled up is ignored."""
    rows = rows_of(batches)
    longest = max(targets.shape[1] for _, targets in rows)
    inputs = torch.zeros((len(rows), longest), dtype=torch.int64)
    targets = torch.full((len(rows), longest), IGNORED)
    for index, (row_inputs, row_targets) in enumerate(rows):
        inputs[index, : row_inputs.shape[1]] = row_inputs[0]
        targets[index, : row_targets.shape[1]] = row_targets[0]
    return inputs, targets


def weights_of(targets: Tensor, class_weights: Tensor | None) -> list[float]:
    """Give the weight of each target in order: 0 where ignored, else 1 or its class's."""
    classes = None if class_weights is None else class_weights.tolist()
    return [
        0.0 if target == IGNORED else 1.0 if classes is None else classes[target]
        for target in targets.flatten().tolist()
    ]


def units_of(batches: Sequence[Batch], class_weights: Tensor | None = None) -> float:
    """Add up the weights of all targets: what the loss of a window is divided by."""
    return math.fsum(weight for _, targets in batches for weight in weights_of(targets, class_weights))


def concatenated_loss(
    model: nn.Module, batches: Sequence[Batch], class_weights: Tensor | None = None, device: str = "cpu"
) -> Tensor:
    """Give the mean loss of one concatenated batch, 0-d, attached to the graph [nats per unit]."""
    inputs, targets = concatenate(batches)
    weights = torch.tensor(weights_of(targets, class_weights), dtype=torch.float64, device=device)
    outputs: Any = model(inputs.to(device))
    named = outputs["logits"] if isinstance(outputs, dict) else outputs
    raw: Tensor = named if isinstance(named, Tensor) else named.logits
    logits = raw.to(torch.promote_types(raw.dtype, torch.float32)).flatten(0, -2)
    picked = logits.gather(1, targets.to(device).flatten().clamp(min=0)[:, None])[:, 0]
    losses = torch.logsumexp(logits, dim=1) - picked
    # A padding position may hold anything: it is left out, not multiplied by 0.
    counted = weights != 0
    return (losses[counted] * weights[counted].to(losses.dtype)).sum() / units_of(batches, class_weights)


def set_concatenated_gradients(
    model: nn.Module, batches: Sequence[Batch], class_weights: Tensor | None = None
) -> float:
    """Put the gradients of one concatenated batch into `.grad`; None stays where none came. Return the loss."""
    for parameter in model.parameters():
        parameter.grad = None
    with torch.enable_grad(), torch.autocast("cpu", enabled=False):
        loss = concatenated_loss(model, batches, class_weights)
        loss.backward()  # type: ignore[no-untyped-call]
    return loss.item()
