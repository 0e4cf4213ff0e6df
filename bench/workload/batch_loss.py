"""The loss of batches that are named tensors: the user's own, or cross-entropy, summed over units and counted beside.

A batch is a dict of tensors. The model gets those that its forward names, the loss gets what the model returned and the
whole batch. Units are counted on the host, before the first forward: the denominator of an update is known then.
"""

# B = samples of a batch, T = tokens of a row, C = classes or vocabulary

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from bench.errors import BenchError
from bench.loop import SummedCrossEntropy, count_valid
from bench.workload.outputs import logits_of
from bench.workload.user_code import call, load_function

UNITS = ("token", "example", "weight")
"""What a loss may be a mean over: valid targets, examples, or the sum of their weights."""
TARGETS = "labels"
"""Name of the targets in a batch; they are the loss's, and never given to the model."""
IDS = "input_ids"
"""Name of token ids in a batch: their number is what was fed [token slots]."""
Batch = Mapping[str, Tensor]

_CONTRACT = (
    "a callable loss(outputs, batch) that returns the sum over the batch's units, with a method units(batch) that "
    f"counts them and an attribute unit, one of {', '.join(UNITS)}"
)


class HasBatch(Protocol):
    """Hold a batch of named tensors."""

    tensors: dict[str, Tensor]


class LossOfBatches(Protocol):
    """Sum a loss over the units of a batch, and count them."""

    unit: str
    """What is counted: token, example or weight."""

    def __call__(self, outputs: Any, batch: Batch) -> Tensor:
        """Sum the losses of a batch, 0-d [nats, this batch]."""

    def units(self, batch: Batch) -> float:
        """Count the units of a batch on the host."""


class CrossEntropyOfLabels:
    """Sum the cross-entropy of logits over the valid `labels`: (B,) for examples, (B, T) for tokens; -100 is ignored.

    labels[b, t] is the target of logits[b, t]: nothing is shifted here.
    """

    def __init__(self) -> None:
        self.unit = "example"
        self._loss = SummedCrossEntropy()

    def __call__(self, outputs: Any, batch: Batch) -> Tensor:
        """Sum the losses [nats, this batch].

        Raises:
            BenchError: What the model returned are no logits of these labels.
        """
        targets = batch[TARGETS]
        return self._loss.of(logits_of(outputs, targets), targets)

    def units(self, batch: Batch) -> float:
        """Count the labels that are not ignored.

        Raises:
            BenchError: There are none in the batch.
        """
        targets = batch.get(TARGETS)
        if targets is None or targets.is_floating_point() or targets.dim() not in (1, 2):
            came = "no such tensor" if targets is None else f"{targets.dtype} of shape {tuple(targets.shape)}"
            raise BenchError(
                f"without loss.factory the loss is cross-entropy, for which the batch needs {TARGETS}, (B,) or (B, T) "
                f"of whole numbers; it has {came}. Add {TARGETS} to the samples, or name a loss of your own."
            )
        self.unit = "example" if targets.dim() == 1 else "token"
        return float(count_valid(targets))


class OwnLoss:
    """Hold the user's loss to its contract at every batch.

    Args:
        loss: What the user's function made.
        what: How messages call it.

    Raises:
        BenchError: It is no loss as expected; says what came.
    """

    def __init__(self, loss: Any, what: str) -> None:
        self._what = what
        self._loss: Callable[[Any, Batch], Any] = loss
        self._units: Callable[[Batch], Any] | None = getattr(loss, "units", None)
        unit = getattr(loss, "unit", None)
        if not callable(loss) or not callable(self._units) or unit not in UNITS:
            lacks = [
                *(["it cannot be called"] if not callable(loss) else []),
                *(["it has no method units"] if not callable(self._units) else []),
                *([f"its unit is {unit!r}"] if unit not in UNITS else []),
            ]
            raise BenchError(f"{what} returned {type(loss).__name__}: {', '.join(lacks)}. Expected: {_CONTRACT}.")
        self.unit = str(unit)

    def __call__(self, outputs: Any, batch: Batch) -> Tensor:
        """Sum the losses of a batch [this batch].

        Raises:
            BenchError: It returned something else than one number of a graph.
        """
        loss = self._loss(outputs, batch)
        if not isinstance(loss, Tensor) or loss.dim() != 0 or not loss.is_floating_point():
            came = f"a tensor {loss.dtype} of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
            raise BenchError(f"{self._what}: the loss returned {came}. Expected: one number, a 0-d floating tensor.")
        if torch.is_grad_enabled() and not loss.requires_grad:
            raise BenchError(
                f"{self._what}: the loss is cut off from the model: it needs no gradient. Leave .item() and .detach() "
                "out, and compute it from what the model returned."
            )
        return loss

    def units(self, batch: Batch) -> float:
        """Count the units of a batch.

        Raises:
            BenchError: The user's count is no number, negative, not finite, or no whole number of tokens or examples.
        """
        assert self._units is not None, "it was refused without"
        came = self._units(batch)
        try:
            units = float(came)
        except (TypeError, ValueError, RuntimeError):
            units = math.nan
        if not math.isfinite(units) or units < 0 or (self.unit != "weight" and not units.is_integer()):
            whole = "" if self.unit == "weight" else f", whole since it counts {self.unit}s"
            raise BenchError(f"{self._what}: units(batch) returned {came!r}. Expected: a number from 0 on{whole}.")
        return units


def make_loss(factory: str | None, args: Mapping[str, Any] | None) -> LossOfBatches:
    """Make the loss of a trial: cross-entropy of labels, or what the user's function or class makes.

    Raises:
        BenchError: The function cannot be imported or called, or makes something else than a loss.
    """
    if factory is None:
        return CrossEntropyOfLabels()
    what = f"loss.factory = {factory}"
    return OwnLoss(call(load_function(factory, "loss.factory"), what, (), args or {}), what)


class BatchLoss:
    """Run the model on a batch and sum its loss: what the loop calls for each micro-batch.

    Args:
        loss: Sums the loss of a batch.
        model: The bare model, whose forward says what it takes.
        are_tokens: Whether the data are our tokens: then the model gets `input_ids` alone, whatever it calls them.
    """

    def __init__(self, loss: LossOfBatches, model: nn.Module, are_tokens: bool = False) -> None:
        self.loss = loss
        self._names = None if are_tokens else Names(model)

    def __call__(self, model: nn.Module, micro_batch: HasBatch) -> Tensor:
        """Sum the losses [this micro-batch].

        Raises:
            BenchError: Model, batch and loss do not fit together; says what came, and what is expected.
        """
        return self.loss(self.outputs(model, micro_batch.tensors), micro_batch.tensors)

    def outputs(self, model: nn.Module, batch: Batch) -> Any:
        """Run the model on what it takes of a batch.

        Raises:
            BenchError: The batch lacks what the model's forward needs.
        """
        return model(batch[IDS]) if self._names is None else model(**self._names.given(batch))


class Names:
    """Choose from a batch what a model's forward names: its parameters, `labels` apart."""

    def __init__(self, model: nn.Module) -> None:
        parameters = inspect.signature(model.forward).parameters.values()
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        named = [parameter for parameter in parameters if parameter.kind in by_name]
        self._named = {parameter.name for parameter in named} - {TARGETS}
        self._required = [parameter.name for parameter in named if parameter.default is inspect.Parameter.empty]
        self._takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
        self._forward = f"{type(model).__name__}.forward"

    def given(self, batch: Batch) -> dict[str, Tensor]:
        """Give the tensors that forward takes.

        Raises:
            BenchError: The batch lacks one that it needs, or has none that it takes.
        """
        found = {name: tensor for name, tensor in batch.items() if name in self._named}
        if not found and self._takes_all:
            found = {name: tensor for name, tensor in batch.items() if name != TARGETS}
        missing = [name for name in self._required if name not in found]
        if missing or not found:
            needs = ", ".join(missing) if missing else f"one of {', '.join(sorted(self._named)) or 'its arguments'}"
            kept = f" ({TARGETS} are the loss's, and not given to the model)" if TARGETS in missing else ""
            raise BenchError(
                f"{self._forward} needs {needs}, and the batch has {', '.join(batch)}{kept}. Name the tensors of a "
                "sample as forward names its arguments."
            )
        return found


def mean_words(loss: LossOfBatches, outputs_of: Callable[[Batch], Any], parts: Sequence[Batch], whole: Batch) -> str:
    """Say so where a loss of one batch is the mean of its parts' losses, and not their sum; else empty.

    Args:
        loss: To be looked at.
        outputs_of: Runs the model without gradients, in evaluation mode.
        parts: Two batches.
        whole: Both in one batch.
    """
    units = [loss.units(part) for part in parts]
    losses = [float(loss(outputs_of(part), part)) for part in parts]
    together, total = float(loss(outputs_of(whole), whole)), sum(losses)
    if min(units) <= 0 or total == 0 or not math.isfinite(total) or abs(together - total) < 0.1 * abs(total):
        return ""
    means = (total / len(losses), sum(u * each for u, each in zip(units, losses, strict=True)) / sum(units))
    if min(abs(together - mean) for mean in means) > 0.05 * abs(together):
        return ""
    return (
        f"the loss of two samples together is {together:.4g}, the mean of theirs ({losses[0]:.4g} and "
        f"{losses[1]:.4g}) and not the sum: return the sum over the units that units(batch) counts (reduction='sum')"
    )
