"""Refuse models and options that give wrong results or hang on several ranks, and say what to do instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


def refuse_unfit(model: nn.Module, ddp_options: Mapping[str, Any]) -> None:
    """Refuse a model or option that would give wrong results, or hang, on several ranks.

    Raises:
        ValueError: says what it is and what to do instead.
    """
    for name, module in model.named_modules():
        where = f"{name} of the model" if name else "the model"
        if isinstance(module, DistributedDataParallel):
            raise ValueError(
                f"{where} is already wrapped in DistributedDataParallel, which would reduce in every micro-step, "
                "since no_sync does not reach it. Pass the bare model (its .module)."
            )
        if isinstance(module, nn.SyncBatchNorm):
            raise ValueError(
                f"{where} is SyncBatchNorm, which exchanges statistics in every forward and hangs when ranks have "
                "unequal numbers of micro-batches. Use BatchNorm, GroupNorm or LayerNorm."
            )
    if ddp_options.get("static_graph"):
        raise ValueError(
            "static_graph = True does not work with no_sync (torch issue 143580). Leave it out; use "
            "unused_parameters='search' where parameters may be unused."
        )
    if "find_unused_parameters" in ddp_options:
        raise ValueError("find_unused_parameters is set by the loop. Use unused_parameters='search' or 'refuse'.")
    if ddp_options.get("device_ids"):
        raise ValueError(
            "device_ids moves inputs, but a rank without data has none. Leave it out and put the model on its device: "
            "the loop moves each micro-batch there."
        )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("the model has no trainable parameter: there is nothing to synchronise.")


class NoGradient(ValueError):
    """Report trainable parameters that received no gradient, which ends the training."""

    def __init__(self, names: Sequence[str], text: str) -> None:
        super().__init__(text)
        self.names = tuple(names)
        """Of the parameters, as the model names them."""


def refuse_constant_loss(model: nn.Module, loss: Tensor) -> None:
    """Refuse a loss that no trainable parameter takes part in: its backward would say no more than that.

    Raises:
        NoGradient: Names the parameters, and the cure for the usual cause.
    """
    if loss.requires_grad:
        return
    names = trainable_names(model)
    shown = ", ".join(names[:_MOST_NAMES]) + (f" and {len(names) - _MOST_NAMES} more" * (len(names) > _MOST_NAMES))
    raise NoGradient(
        names,
        f"no trainable parameter received a gradient, since the loss depends on none: {shown}. Reentrant activation "
        "checkpointing cuts off blocks whose inputs need no gradient, such as LoRA's behind a frozen embedding: use "
        "the non-reentrant kind.",
    )


_MOST_NAMES = 4
"""Parameters that a message names."""


def trainable_names(model: nn.Module) -> list[str]:
    """Name the parameters that are to be trained, as the model without wrappers of ours does."""
    wrapped = "module.model." if isinstance(model, DistributedDataParallel) else ""
    return [
        name.removeprefix(wrapped)
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and name.startswith(wrapped)
    ]


@contextmanager
def explain_reentrant() -> Iterator[None]:
    """Explain DistributedDataParallel's error about a parameter that is ready twice in one backward, and the cure.

    A reentrant checkpoint runs a backward inside the backward, hidden from the outer graph: a block used twice reports
    twice, and under the search for unused parameters every parameter in it was taken for unused before.

    Raises:
        ValueError: It happened.
    """
    try:
        yield
    except RuntimeError as error:
        if "ready only once" in str(error):
            raise ValueError(
                "reentrant activation checkpointing does not work on several ranks with a block used twice, or with "
                "unused_parameters='search'. Call torch.utils.checkpoint.checkpoint(..., use_reentrant=False)."
            ) from error
        raise
