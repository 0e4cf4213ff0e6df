"""Follow tensor storages from birth to death, know what each is kept for, and what the peak consisted of.

What a storage is may be known only later: autograd saves an operator's output when the next operator runs, and a
tensor becomes a gradient after it was made. So the peak is kept as a list of storages, and asked what they were at the
end. The list is made at the last moment of a peak, before the first storage of it dies.
"""

from __future__ import annotations

import operator
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import partial
from typing import Any

import torch

from bench.measure.device import PeakParts


class Use(IntEnum):
    """Name what a storage is kept for; of several uses the largest counts."""

    TEMPORARY = 0
    ACTIVATION = 1
    """Kept for the backward: saved by autograd, or made again in the backward by activation checkpointing."""
    WEIGHT_CAST = 2
    """A parameter in autocast's type; autograd saves it too, but it does not grow with the micro-batch."""
    DDP_BUCKET = 3
    GRADIENT = 4
    OPTIMIZER_STATE = 5
    PARAMETER = 6
    """Of the model: a parameter or a buffer."""


class _Storage:
    """Hold what is known of one storage, also after its death."""

    __slots__ = ("bytes", "reference", "use")

    def __init__(self, storage: torch.UntypedStorage, on_death: Callable[[_Storage], None]) -> None:
        self.bytes = 0
        self.reference: weakref.ref[Any] = weakref.ref(storage, lambda _: on_death(self))
        self.use = Use.TEMPORARY


_BYTES_OF = operator.attrgetter("bytes")


class LiveStorages:
    """Count the bytes of the storages that live on one type of device, and keep what the peak held [one process].

    Args:
        device_type: Storages of other devices are left out.
    """

    def __init__(self, device_type: str) -> None:
        self._device_type = device_type
        self.phase = "update"
        """What the loop is at, to be set from outside; before the first forward what the last update left lives."""
        self.live_bytes = 0
        self.peak_bytes = 0
        self.peak_phase = self.phase
        self._live: dict[int, _Storage] = {}
        self._at_peak: tuple[list[_Storage], list[int]] = ([], [])
        self._is_at_peak = False

    def see(self, tensor: torch.Tensor, use: Use = Use.TEMPORARY) -> None:
        """Count a tensor's storage once, follow its size, note a use."""
        if self._is_followed(tensor):
            self.see_storage(tensor.untyped_storage(), use)

    def see_all(self, tensors: Iterable[torch.Tensor], use: Use) -> None:
        """See several tensors of one use."""
        for tensor in tensors:
            self.see(tensor, use)

    def use_of(self, tensor: torch.Tensor) -> Use | None:
        """Give the use a tensor's storage is known for; None for one that is not known."""
        known = self._live.get(id(tensor.untyped_storage())) if self._is_followed(tensor) else None
        return None if known is None else known.use

    def see_storage(self, storage: torch.UntypedStorage, use: Use) -> None:
        """Count a storage of the device; see `see`."""
        key, count = id(storage), storage.nbytes()
        known = self._live.get(key)
        if known is None or known.reference() is not storage:
            known = self._live[key] = _Storage(storage, partial(self._forget, key))
        known.use = max(known.use, use)
        if count != known.bytes:
            self._change(known, count)

    def parts(self) -> PeakParts:
        """Divide the peak by what its storages were kept for; what has no other use is temporary."""
        if self._is_at_peak:
            self._leave_peak()
        counts: Counter[Use] = Counter()
        for storage, count in zip(*self._at_peak, strict=True):
            counts[storage.use] += count
        return PeakParts(
            phase=self.peak_phase,
            model_bytes=counts[Use.PARAMETER],
            gradient_bytes=counts[Use.GRADIENT],
            optimizer_state_bytes=counts[Use.OPTIMIZER_STATE],
            activation_bytes=counts[Use.ACTIVATION],
            ddp_bucket_bytes=counts[Use.DDP_BUCKET],
            temporary_bytes=counts[Use.TEMPORARY] + counts[Use.WEIGHT_CAST],
        )

    def _is_followed(self, tensor: torch.Tensor) -> bool:
        return tensor.layout is torch.strided and tensor.device.type == self._device_type

    def _change(self, storage: _Storage, count: int) -> None:
        if count < storage.bytes and self._is_at_peak:
            self._leave_peak()
        self.live_bytes += count - storage.bytes
        storage.bytes = count
        if self.live_bytes > self.peak_bytes:
            self.peak_bytes, self.peak_phase, self._is_at_peak = self.live_bytes, self.phase, True

    def _leave_peak(self) -> None:
        # The garbage collector may let storages die whenever an object that it follows is made, so none is made for
        # each storage; where it did so even here, the call from within has kept the peak already.
        storages = list(self._live.values())
        counts = list(map(_BYTES_OF, storages))
        if self._is_at_peak:
            self._at_peak, self._is_at_peak = (storages, counts), False

    def _forget(self, key: int, storage: _Storage) -> None:
        self._change(storage, 0)
        if self._live.get(key) is storage:
            del self._live[key]
