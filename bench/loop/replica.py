"""One rank's copy of the model as DistributedDataParallel holds it, and which models it cannot hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_leaves


class Replica(nn.Module):
    """Pass calls on to the model; called without arguments, give a zero that every parameter contributes nothing to.

    The backward of that zero takes this rank through a gradient synchronisation without data and without a forward of
    the model, whose batch statistics and random numbers stay as they are. Where parameters may be left out (`search`),
    only a stand-in takes part, so that a parameter no rank used stays without a gradient.
    """

    def __init__(self, model: nn.Module, search: bool) -> None:
        super().__init__()
        self.model = model
        first = next(parameter for parameter in model.parameters() if parameter.requires_grad)
        self.stand_in = nn.Parameter(first.detach().new_zeros(1)) if search else None
        self._search = search
        self._is_checked = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model, or nothing."""
        if not args and not kwargs:
            return _Nothing.apply(  # type: ignore[no-untyped-call]
                *([self.stand_in] if self._search else self._trainable())
            )
        output = self.model(*args, **kwargs)
        if self._search and not self._is_checked:
            self._is_checked = True
            _refuse_reentrant_checkpointing(output)
        return output

    def _trainable(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]


class _Nothing(torch.autograd.Function):
    """Zero, whatever the parameters hold; its gradients are zeros even where a parameter is not finite."""

    @staticmethod
    def forward(ctx: Any, *parameters: Tensor) -> Tensor:
        """Give zero."""
        ctx.save_for_backward(*parameters)
        return parameters[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        """Give every parameter a gradient of zeros."""
        del gradients
        return tuple(torch.zeros_like(parameter) for parameter in ctx.saved_tensors)


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
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("the model has no trainable parameter - nothing can be synchronised")


def _refuse_reentrant_checkpointing(output: Any) -> None:
    """Walk the graph of an output for reentrant checkpoints, which mark parameters ready twice under the search."""
    waiting = [leaf.grad_fn for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if node.name() == "CheckpointFunctionBackward":
            raise ValueError(
                "reentrant activation checkpointing cannot be searched for unused parameters - call "
                "torch.utils.checkpoint.checkpoint(..., use_reentrant=False)"
            )
        following = {next_node for next_node, _ in node.next_functions if next_node is not None} - seen
        seen |= following
        waiting.extend(following)
