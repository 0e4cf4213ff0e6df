"""Facts of a model that belong in every row: how many parameters, in how many bytes, with gradients of which type."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer


@dataclass(frozen=True)
class ParameterCounts:
    """Parameters of a model, counted three ways: a tied weight or a frozen one makes them differ."""

    total: int
    """Elements counted at every module that holds them: a weight tied between two modules counts twice [one replica].

    The tied head of the presets is a second use of one module's table, so it counts once."""
    trainable: int
    """Elements that receive a gradient, tied ones once [one replica]."""
    unique: int
    """Elements that exist, tied ones once, frozen ones included: what memory holds [one replica]."""


def parameter_counts(model: nn.Module) -> ParameterCounts:
    """Count the parameters of a model on any device, `meta` included; buffers are not parameters [one replica]."""
    unique = list(model.parameters())
    return ParameterCounts(
        total=sum(parameter.numel() for _, parameter in model.named_parameters(remove_duplicate=False)),
        trainable=sum(parameter.numel() for parameter in unique if parameter.requires_grad),
        unique=sum(parameter.numel() for parameter in unique),
    )


def gradient_dtype(model: nn.Module) -> str | None:
    """Name the type gradients are accumulated in, such as float32: that of the trainable parameters.

    Several types are joined by a plus sign, in alphabetical order; null when nothing is trainable.
    """
    dtypes = {parameter.dtype for parameter in model.parameters() if parameter.requires_grad}
    return "+".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes)) or None


def tensor_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Add up the elements' sizes of tensors, one that is given twice counted once [bytes, this rank].

    What an allocator rounds up is not included.
    """
    distinct = {id(tensor): tensor for tensor in tensors}
    return sum(tensor.numel() * tensor.element_size() for tensor in distinct.values())


def live_gradients(model: nn.Module) -> list[torch.Tensor]:
    """List the gradients that are alive; the list keeps them so, so let it go soon."""
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def hf_vocabulary(model: nn.Module) -> int:
    """Give the number of token ids that a model of transformers takes, whatever it is wrapped in by peft."""
    config: Any = model.config
    return int(config.vocab_size)


def names_without_gradient(model: nn.Module) -> set[str]:
    """Name the trainable parameters that hold no gradient now; a tied one by its first name."""
    return {name for name, one in model.named_parameters() if one.requires_grad and one.grad is None}


def optimizer_tensors(optimizer: Optimizer) -> list[torch.Tensor]:
    """List the tensors of an optimizer's state, its step counts included."""
    return [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
