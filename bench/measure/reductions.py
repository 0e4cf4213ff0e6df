"""Count gradient reductions where they happen: at torch's dispatcher, which every collective passes.

DistributedDataParallel reduces gradients bucket by bucket while the backward runs. Counting the calls, rather than
trusting the loop's intent, is what shows a reduction in every micro-step.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:  # the loop and what watches it meet only in the worker
    from bench.loop.observer import Phase, UpdateResult
    from bench.loop.plan import WindowPlan


class Reductions(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Count all-reduces of floating-point tensors while active; an observer of the loop [one rank].

    Counts of integers, which other parts of a distributed program exchange, are not gradients.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.per_update: list[int] = []
        """Reductions of each update watched."""
        self.most_per_micro_step = 0
        """Most reductions of one micro-step: the buckets that the gradients are cut into."""
        self._buckets: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()
        self._in_micro_step = 0
        self._in_update = 0
        self._is_active = False

    def __enter__(self) -> Reductions:
        self._is_active = True
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._is_active = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.namespace == "c10d" and func._opname.startswith("allreduce") and _are_floats(args[0]):
            self._in_micro_step += 1
            self._in_update += 1
            self._buckets.update(tensor.untyped_storage() for tensor in args[0])
        return func(*args, **(kwargs or {}))

    def buckets(self) -> list[torch.UntypedStorage]:
        """List the storages that were reduced and still live: those that gradients are gathered in."""
        return list(self._buckets)

    def window_begin(self, plan: WindowPlan) -> None:
        """Start from 0."""
        self._in_micro_step = self._in_update = 0

    def phase_begin(self, phase: Phase) -> None:
        """Do nothing."""

    def micro_step_end(self) -> None:
        """Note how many this micro-step had."""
        self.most_per_micro_step = max(self.most_per_micro_step, self._in_micro_step)
        self._in_micro_step = 0

    def update_end(self, result: UpdateResult) -> None:
        """Note how many this update had, those without data included."""
        if self._is_active:
            self.per_update.append(self._in_update)


def _are_floats(tensors: Any) -> bool:
    return all(isinstance(tensor, torch.Tensor) and tensor.is_floating_point() for tensor in tensors)
