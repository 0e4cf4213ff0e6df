"""Which models and options accumulation over several ranks would get wrong, or hang on: refused, with the cure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel


def refuse_unfit(model: nn.Module, ddp_options: Mapping[str, Any]) -> None:
    """Refuse what accumulation over ranks would get wrong, or hang on.

    Raises:
        ValueError: says what it is and what to do instead.
    """
    for name, module in model.named_modules():
        where = f"{name} of the model" if name else "the model"
        if isinstance(module, DistributedDataParallel):
            raise ValueError(
                f"{where} is already wrapped in DistributedDataParallel, which would reduce in every micro-step, "
                "since no_sync does not reach it - pass the bare model (its .module)"
            )
        if isinstance(module, nn.SyncBatchNorm):
            raise ValueError(
                f"{where} is SyncBatchNorm, which exchanges statistics in every forward and hangs when ranks have "
                "unequal numbers of micro-batches - use BatchNorm, GroupNorm or LayerNorm"
            )
    if ddp_options.get("static_graph"):
        raise ValueError(
            "static_graph = True does not work with no_sync (torch issue 143580) - leave it out; use "
            "unused_parameters='search' where parameters may be left out"
        )
    if "find_unused_parameters" in ddp_options:
        raise ValueError("find_unused_parameters is decided here - use unused_parameters='search' or 'refuse'")
    if ddp_options.get("device_ids"):
        raise ValueError(
            "device_ids moves inputs, and a rank without data has none - leave it out: put the model on its device, "
            "and the loop moves each micro-batch there"
        )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("the model has no trainable parameter - nothing can be synchronised")


@contextmanager
def explain_reentrant() -> Iterator[None]:
    """Say what DistributedDataParallel means when gradients of one parameter came twice in a backward, and the cure.

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
                "reentrant activation checkpointing does not work over several ranks with a block used twice, or with "
                "unused_parameters='search' - call torch.utils.checkpoint.checkpoint(..., use_reentrant=False)"
            ) from error
        raise
