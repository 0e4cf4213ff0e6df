"""A witness inside torch's dispatcher: live tensor storages on the CPU, and values that the host waits for.

Every operator passes the dispatcher, in backward too, so each new storage is seen when it appears and, by a weak
reference, when it goes. Not seen: scratch space inside one operator, and memory that torch does not own.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bench.measure.device import MemoryPass

_HOST_READS = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default}
_TO_COPY = torch.ops.aten._to_copy.default
_COPY = torch.ops.aten.copy_.default


class DispatchWitness(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Count live bytes of tensor storages and reads by the host while active [one process].

    Args:
        alive: tensors that live before the witness comes: parameters, gradients, optimizer state.
        kept_on_host: tensors whose reads are not counted, such as an optimizer's own step counts.
        device_type: reads from tensors of this device are counted.
        count_storages: False where the device has counters of its own.
    """

    def __init__(
        self,
        alive: Iterable[torch.Tensor] = (),
        kept_on_host: Iterable[torch.Tensor] = (),
        *,
        device_type: str = "cpu",
        count_storages: bool = True,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device_type = device_type
        self._kept_on_host = {id(tensor): tensor for tensor in kept_on_host}
        self.host_reads = 0
        self.live_bytes = 0
        self.peak_bytes = 0
        self._sizes: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._count_storages = count_storages
        if count_storages:
            for tensor in alive:
                self._see(tensor)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.host_reads += self._is_host_read(func, args, kwargs or {})
        result = func(*args, **(kwargs or {}))
        if self._count_storages:
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor):
                    self._see(leaf)
        return result

    def _is_host_read(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Tell whether the host waits here for a value: read as a Python number, or copied and waited for."""
        if func in _HOST_READS:
            return args[0].device.type == self._device_type and id(args[0]) not in self._kept_on_host
        if self._device_type == "cpu":
            return False  # a copy is no reading: host and device are one
        if func is _TO_COPY:
            source, target, waits = args[0], kwargs.get("device"), not kwargs.get("non_blocking")
        elif func is _COPY:
            source, target, waits = args[1], args[0].device, not _argument(args, kwargs, 2, "non_blocking")
        else:
            return False
        return waits and source.device.type == self._device_type and target is not None and target.type == "cpu"

    def result(self) -> MemoryPass:
        """Give what was witnessed so far."""
        return MemoryPass(self.peak_bytes if self._count_storages else None, self.host_reads)

    def _see(self, tensor: torch.Tensor) -> None:
        """Count a storage once, follow its size, and uncount it when it dies."""
        if tensor.layout is not torch.strided or tensor.device.type != self._device_type:
            return
        storage = tensor.untyped_storage()
        key, size = id(storage), storage.nbytes()
        known = self._sizes.get(key)
        if known is not None and known[1]() is storage:
            self.live_bytes += size - known[0]
            self._sizes[key] = (size, known[1])
        else:
            self._sizes[key] = (size, weakref.ref(storage, self._forget(key)))
            self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _forget(self, key: int) -> Callable[[Any], None]:
        def forget(_: Any) -> None:
            size, _reference = self._sizes.pop(key)
            self.live_bytes -= size

        return forget


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], place: int, name: str) -> Any:
    """Give an argument however it was passed; None when it was not."""
    return args[place] if len(args) > place else kwargs.get(name)
