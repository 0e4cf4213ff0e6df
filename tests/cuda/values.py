"""Right values on the stand-in GPU: each CUDA operator is computed by the CPU too, into the same memory.

The CUDA operator runs as well, so allocations and choices of kernels stay the real ones, but the mode itself changes
what autograd allocates: bytes are tested without it, and values with it. Random numbers are the CPU's;
collectives exchange by themselves. `copy_bytes` must be at least the largest tensor.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

aten = torch.ops.aten

COPY_BYTES = 1 << 30
"""For the switch `copy_bytes`: everything in these tests is smaller."""


def on_host(value: Any) -> Any:
    """Give the same memory as a CPU tensor; devices and generators become the CPU's; the rest stays."""
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    if isinstance(value, torch.Generator):
        return _generator_on_host(value) if value.device.type == "cuda" else value
    if not isinstance(value, torch.Tensor) or not value.is_cuda:
        return value
    storage = value.untyped_storage()
    if not storage.nbytes() or not value.numel():
        return torch.empty(value.shape, dtype=value.dtype)
    memory = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
    raw = torch.frombuffer(memory, dtype=torch.uint8)
    empty = torch.empty(0, dtype=value.dtype)
    return empty.set_(raw.untyped_storage(), value.storage_offset(), value.size(), value.stride())


_generators: dict[int, tuple[torch.Generator, int, torch.Generator]] = {}
"""By identity of a GPU's generator, which is kept so that the identity stays its own: it, its seed, the CPU's."""


def _generator_on_host(generator: torch.Generator) -> torch.Generator:
    """Give a CPU generator of the same seed, which goes on from call to call until the GPU's is seeded anew."""
    seed = generator.initial_seed()
    known = _generators.get(id(generator))
    if known is None or known[1] != seed:
        known = _generators[id(generator)] = (generator, seed, torch.Generator().manual_seed(seed))
    return known[2]


def _flash(
    q: Any, k: Any, v: Any, dropout: float = 0.0, causal: bool = False, debug: bool = False, *, scale: Any = None
):  # type: ignore[no-untyped-def]
    out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal, scale=scale)
    return (out, lse, *(None,) * 7)


def _flash_backward(  # type: ignore[no-untyped-def]
    grad, q, k, v, out, lse, cum_q, cum_k, max_q, max_k, dropout, causal, seed, offset, *, scale=None
):
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, out, lse, dropout, causal, scale=scale
    )


def _efficient(q, k, v, bias, compute_lse, dropout=0.0, causal=False, *, scale=None):  # type: ignore[no-untyped-def]
    out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal, attn_mask=bias, scale=scale)
    return out, lse, None, None


def _efficient_backward(  # type: ignore[no-untyped-def]
    grad, q, k, v, bias, out, lse, seed, offset, dropout, mask, causal=False, *, scale=None
):
    lse = lse[..., : q.shape[2]].contiguous()  # the GPU's has rows to spare
    return (
        *aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad, q, k, v, out, lse, dropout, causal, attn_mask=bias, scale=scale
        ),
        None,
    )


_OTHER_ON_CPU: dict[Any, Callable[..., Any]] = {
    aten._scaled_dot_product_flash_attention.default: _flash,
    aten._scaled_dot_product_flash_attention_backward.default: _flash_backward,
    aten._scaled_dot_product_efficient_attention.default: _efficient,
    aten._scaled_dot_product_efficient_attention_backward.default: _efficient_backward,
}
_WITHOUT_VALUES = {
    aten._local_scalar_dense.default,
    aten.empty.memory_format,
    aten.empty_strided.default,
    aten.empty_like.default,
    aten.record_stream.default,
}


class Values(TorchDispatchMode):
    """Give every CUDA operator below it the values that the CPU computes."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        written = [
            i for i, a in enumerate(func._schema.arguments) if a.alias_info is not None and a.alias_info.is_write
        ]
        is_view = not written and any(r.alias_info is not None for r in func._schema.returns)
        if (
            not _speaks_of_cuda(args, kwargs)
            or is_view
            or func in _WITHOUT_VALUES
            or func.namespace not in ("aten", "prims")
        ):
            return func(*args, **kwargs)
        torch.cuda.current_stream().synchronize()  # a collective may still be writing
        host_args, host_kwargs = [tree_map(on_host, a) for a in args], tree_map(on_host, kwargs)
        if "pin_memory" in host_kwargs:
            host_kwargs["pin_memory"] = False
        twins = self._twins(func, written, args, kwargs, host_args, host_kwargs)
        computed = _OTHER_ON_CPU.get(func, func)(*host_args, **host_kwargs)
        result = func(*args, **kwargs)
        for original, twin in twins:
            on_host(original).copy_(twin)
        if not written:
            for target, source in zip(tree_leaves(result), tree_leaves(computed), strict=False):
                if isinstance(target, torch.Tensor) and isinstance(source, torch.Tensor):
                    _write(on_host(target), source)
        return result

    def _twins(  # type: ignore[no-untyped-def]
        self, func, written, args, kwargs, host_args, host_kwargs
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Put copies in place of what the operator writes, so that the CUDA operator finds the memory as it was."""
        twins = []
        for i in written:
            name = func._schema.arguments[i].name
            got = args[i] if i < len(args) else kwargs.get(name)
            twin = tree_map(lambda t: on_host(t).clone() if isinstance(t, torch.Tensor) else t, got)
            if i < len(args):
                host_args[i] = twin
            elif name in kwargs:
                host_kwargs[name] = twin
            pairs = zip(tree_leaves(got), tree_leaves(twin), strict=True)
            twins += [(a, b) for a, b in pairs if isinstance(a, torch.Tensor)]
        return twins


def _speaks_of_cuda(args: Any, kwargs: Any) -> bool:
    return any(
        value.is_cuda if isinstance(value, torch.Tensor) else isinstance(value, torch.device) and value.type == "cuda"
        for value in tree_leaves((args, kwargs))
    )


def _write(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copy; where the GPU's result has rows to spare, into its first; where it leaves one out, nothing."""
    if target.dim() != source.dim() or not target.numel():
        return
    target[tuple(slice(0, n) for n in source.shape)].copy_(source)
