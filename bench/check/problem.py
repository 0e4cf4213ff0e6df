"""What a training step is tried on: a model that can be made afresh, its vocabulary, and the weights of its classes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from bench.loop import batch_coupled_layers, forward_is_random, random_layers


@dataclass
class Problem:
    """Hold a model's initial state and what goes with it."""

    model: nn.Module
    """The model at its initial weights, on the CPU; never trained itself."""
    vocab_size: int
    """Classes of its logits, and bound of its input ids."""
    class_weights: Tensor | None = None
    """(C,) weight of each class's targets; None weighs all alike."""
    note: str = ""
    """What was done to the model to make it small; empty when nothing was."""
    seed: int = 7

    def fresh(self) -> nn.Module:
        """Copy the model in float64, in training mode, with what is random or coupled put to rest."""
        model = copy.deepcopy(self.model).double().train()
        put_to_rest(model)
        return model


def put_to_rest(model: nn.Module) -> None:
    """Take randomness and coupling out of the layers that are known for it, so that the rest can be proved."""
    for module in model.modules():
        if isinstance(module, _DropoutNd):
            module.p = 0.0
        elif isinstance(module, nn.RNNBase | nn.MultiheadAttention):
            module.dropout = 0.0
        elif isinstance(module, _BatchNorm | nn.RReLU):
            module.eval()
            # A training step may call model.train(), which would wake it up.
            module.train = _stay(module)  # type: ignore[method-assign, assignment]


def _stay(module: nn.Module) -> Callable[[bool], nn.Module]:
    def train(mode: bool = True) -> nn.Module:
        del mode
        return module

    return train


def unequal_layers(problem: Problem) -> list[str]:
    """Name the layers of the model as the user trains it for which accumulation is not a larger batch."""
    model = copy.deepcopy(problem.model).double().train()
    return [*batch_coupled_layers(model), *random_layers(model)]


def is_random_at_rest(problem: Problem) -> bool:
    """Tell whether a forward still draws random numbers with all known layers at rest, such as functional dropout."""
    inputs = torch.zeros((2, 4), dtype=torch.int64)

    def total(model: nn.Module, batch: Tensor) -> Tensor:
        logits: Tensor = model(batch)
        return logits.sum()

    return forward_is_random(total, problem.fresh(), inputs)
