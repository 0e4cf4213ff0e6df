"""Refuse models and options that give wrong results or hang on several ranks, and say what to do instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn
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
