"""Floating-point operations of a model whose shape is not known: counted by torch, once for each shape of batch.

A copy of the model without memory (on the `meta` device) runs forward and backward of each shape that was fed, under
`torch.utils.flop_counter`, attention from its definition: the counter knows no formula for some fused kernels. What
module calls inside the backward compute again, as activation checkpointing does, is counted apart, so that it is no
model FLOP. Only matrix products and convolutions count, as in `bench.workload.flops`.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

Shapes = tuple[tuple[str, tuple[int, ...], torch.dtype], ...]
"""Name, shape and type of each tensor of a batch: what one count holds for."""
MOST_SHAPES = 16
"""Shapes of batches that are counted; of more, nothing is."""
Run = Callable[[nn.Module, dict[str, Tensor]], Any]
"""Runs a model on a batch of named tensors."""


def shapes_of(tensors: Mapping[str, Tensor]) -> Shapes:
    """Describe a batch."""
    return tuple((name, tuple(tensor.shape), tensor.dtype) for name, tensor in sorted(tensors.items()))


def count_flops(model: nn.Module, run: Run, fed: Mapping[Shapes, int]) -> tuple[int | None, int | None]:
    """Count what was fed: forward and backward once each, and with what is recomputed [FLOPs, this rank].

    Args:
        model: The bare model; it is not touched.
        run: Runs it on a batch.
        fed: Shapes of batches, and how often each was fed.

    Returns:
        Model FLOPs and hardware FLOPs; None where torch cannot count them, as the log says why.
    """
    if len(fed) > MOST_SHAPES:
        sys.stderr.write(f"FLOPs were not counted: batches had {len(fed)} different shapes\n")
        return None, None
    try:
        each = {shapes: _count(model, run, shapes) for shapes in fed}
    except Exception as error:  # of the user's forward, which may need values
        sys.stderr.write(f"FLOPs were not counted: {type(error).__name__}: {error}\n")
        return None, None
    total = sum(times * each[shapes][0] for shapes, times in fed.items())
    again = sum(times * each[shapes][1] for shapes, times in fed.items())
    return (total - again, total) if total else (None, None)


def _count(model: nn.Module, run: Run, shapes: Shapes) -> tuple[int, int]:
    """Count all FLOPs of one batch, and those of them that are recomputed."""
    hollow = _without_memory(model)
    batch = {name: torch.empty(shape, dtype=dtype, device="meta") for name, shape, dtype in shapes}
    recomputed = _Recomputed(hollow)
    with torch.random.fork_rng([]), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        recomputed.counter = counter
        outputs = list(_tensors(run(hollow, batch)))
        with recomputed.watched():
            torch.autograd.backward(outputs, [torch.empty_like(tensor) for tensor in outputs])
    return int(counter.get_total_flops()), recomputed.flops


def _without_memory(model: nn.Module) -> nn.Module:
    """Copy a model without copying a tensor: parameters and buffers, shared ones still shared, go to `meta`."""
    memo: dict[int, Any] = {}
    for parameter in model.parameters():
        memo[id(parameter)] = nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
    for buffer in model.buffers():
        memo[id(buffer)] = buffer.detach().to("meta")
    return copy.deepcopy(model, memo)


def _tensors(outputs: Any) -> Iterator[Tensor]:
    """Find what a backward can start from: the logits, where there are some, else every tensor that is returned."""
    if isinstance(outputs, Tensor):
        if outputs.requires_grad:
            yield outputs
        return
    named = outputs if isinstance(outputs, Mapping) else getattr(outputs, "__dict__", {})
    logits = named.get("logits")
    if isinstance(logits, Tensor):
        yield from _tensors(logits)
        return
    for inner in named.values() if named else outputs if isinstance(outputs, tuple | list) else ():
        yield from _tensors(inner)


class _Recomputed:
    """Add up the FLOPs of module calls inside a backward: the forward that is run again."""

    def __init__(self, model: nn.Module) -> None:
        self.flops = 0
        self.counter: FlopCounterMode | None = None
        self._model, self._depth, self._before = model, 0, 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch module calls until the end of the block."""
        handles = []
        for module in self._model.modules():
            handles.append(module.register_forward_pre_hook(self._begin))
            handles.append(module.register_forward_hook(self._end, always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _total(self) -> int:
        return 0 if self.counter is None else int(self.counter.get_total_flops())

    def _begin(self, *_: Any) -> None:
        if self._depth == 0:
            self._before = self._total()
        self._depth += 1

    def _end(self, *_: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.flops += self._total() - self._before
