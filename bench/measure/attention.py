"""Which of torch's attention kernels ran: seen where operators are dispatched, and around each call of attention.

`scaled_dot_product_attention` picks a kernel anew at every call, by device, type, shape and what the torch at hand can
do. A fused kernel is an operator of its own, which a dispatch mode sees. The mathematical form is none: it is taken
apart before dispatch, so a call that reached no fused operator was that.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_FUSED = {
    "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_flash_attention_for_cpu": "flash",
    "_scaled_dot_product_efficient_attention": "memory_efficient",
    "_scaled_dot_product_cudnn_attention": "cudnn",
}
"""Forward operator -> name of the kernel."""
_NAME_OF: dict[Any, str] = {
    getattr(torch.ops.aten, operator).default: name
    for operator, name in _FUSED.items()
    if hasattr(torch.ops.aten, operator)  # not every torch has every one
}


class AttentionSeen(TorchFunctionMode):
    """Name the kernels that ran while active [one process].

    Forward passes of activation checkpointing that run again in the backward are forward passes too. Attention by other
    means, such as a package's own kernel or a compiled graph, is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self._names: set[str] = set()
        self._fused_calls = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Give flash, memory_efficient, cudnn and math, as far as they were seen, sorted."""
        return tuple(sorted(self._names))

    def see(self, operator: Any) -> None:
        """Note one dispatched operator."""
        name = _NAME_OF.get(operator)
        if name is not None:
            self._fused_calls += 1
            self._names.add(name)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch; of attention, note whether it reached a fused operator."""
        before = self._fused_calls
        result = func(*args, **(kwargs or {}))
        if func is functional.scaled_dot_product_attention and self._fused_calls == before:
            self._names.add("math")
        return result
