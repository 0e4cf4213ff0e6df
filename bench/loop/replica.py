"""One rank's copy of the model as DistributedDataParallel holds it: it can take part without data."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


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

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model, or nothing."""
        if not args and not kwargs:
            return _Nothing.apply(  # type: ignore[no-untyped-call]
                *([self.stand_in] if self._search else self._trainable())
            )
        return self.model(*args, **kwargs)

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
