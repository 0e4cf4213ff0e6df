"""Leave out the casts to float32 that a step makes, so that the rest of it can be proved in float64.

Most scripts cast the logits to float32 before the loss. Under float64 that costs nine digits, and hides nothing else.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ROUNDING = 1e-5
"""A relative error below this may be a rounding to float32, in sums of some length."""


class InDouble(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keep float64 where a float64 tensor is cast to float32, and note whether float32 is made use of."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.casts = 0
        self.has_float32 = False
        """Whether an operation on float64 gave float32, or would have."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, as it is or without its cast."""
        kwargs = kwargs or {}
        is_cast = func is torch.ops.aten._to_copy.default and kwargs.get("dtype") is torch.float32
        if is_cast and isinstance(args[0], Tensor) and args[0].dtype is torch.float64:
            self.casts, self.has_float32 = self.casts + 1, True
            kwargs = kwargs | {"dtype": torch.float64}
        result = func(*args, **kwargs)
        if isinstance(result, Tensor) and result.dtype is torch.float32:
            given = [each.dtype for each in args if isinstance(each, Tensor)]
            self.has_float32 = self.has_float32 or torch.float64 in given
        return result
