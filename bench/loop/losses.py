"""Ready losses of classification and language models: the sum over a micro-batch, and its units beside it.

A loss summed in one place and counted in another is how denominators go wrong, so one object does both. The units are
the loss's own: examples, valid (not ignored) targets, or the sum of the class weights of valid targets.
"""

# B = micro-batch [examples], T = tokens of a row, C = classes or vocabulary

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.loop.plan import WindowCounts


def count_valid(targets: Tensor, ignore_index: int = -100) -> int:
    """Count the targets that are not ignored [this micro-batch]. Exact in any dtype: it counts, it does not add up."""
    return int(torch.count_nonzero(targets != ignore_index))


def sum_target_weights(targets: Tensor, class_weights: Tensor, ignore_index: int = -100) -> float:
    """Add up the class weights of the targets that are not ignored, in float64 [this micro-batch].

    It is the denominator of torch's weighted mean: `CrossEntropyLoss` documentation, reduction "mean".
    """
    valid = targets[targets != ignore_index]
    return float(class_weights.to(device=valid.device, dtype=torch.float64)[valid].sum())


def logits_in(outputs: Any) -> Any:
    """Take the logits out of what a model returned: itself, or what it holds under the name `logits`."""
    if isinstance(outputs, Tensor):
        return outputs
    return outputs.get("logits") if isinstance(outputs, dict) else getattr(outputs, "logits", None)


class SummedCrossEntropy:
    """Sum the cross-entropy of logits over the valid targets; a micro-batch is a pair (inputs, targets).

    `inputs` is what the model takes, with the examples in its first dimension; targets (B,) or (B, T) int64 go with
    logits (B, C) or (B, T, C), which the model returns as they are or under the name `logits`. Examples of plain
    classification are its valid targets.

    Args:
        class_weights: (C,) factor of each class's targets, not negative; None weighs all alike.
        ignore_index: Target that contributes nothing, neither to the sum nor to the units.

    Raises:
        ValueError: A class weight is negative or not finite.
    """

    def __init__(self, class_weights: Tensor | None = None, ignore_index: int = -100) -> None:
        if class_weights is not None and not bool(torch.all(torch.isfinite(class_weights) & (class_weights >= 0))):
            raise ValueError(f"class_weights = {class_weights.tolist()} must all be finite and at least 0.")
        self.class_weights = class_weights
        self.ignore_index = ignore_index

    def __call__(self, model: nn.Module, micro_batch: tuple[Any, Tensor]) -> Tensor:
        """Run the model and sum its losses, in float32 at least [nats, this micro-batch]."""
        inputs, targets = micro_batch
        outputs = model(inputs)
        return self.of(outputs if isinstance(outputs, Tensor) else logits_in(outputs), targets)

    def of(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Sum the losses of logits (B, C) or (B, T, C), in float32 at least [nats, this micro-batch]."""
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32)).flatten(0, -2)
        weights = self.class_weights
        return functional.cross_entropy(
            logits,
            targets.flatten(),
            weight=None if weights is None else weights.to(logits),
            ignore_index=self.ignore_index,
            reduction="sum",
        )

    def count(self, micro_batch: tuple[Any, Tensor]) -> WindowCounts:
        """Count one micro-batch, on the host, before it moves to the device."""
        _inputs, targets = micro_batch
        valid = count_valid(targets, self.ignore_index)
        weights = self.class_weights
        units = float(valid) if weights is None else sum_target_weights(targets, weights, self.ignore_index)
        return WindowCounts(1, targets.shape[0], valid, targets.numel(), units)
