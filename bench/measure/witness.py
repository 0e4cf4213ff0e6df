"""A witness inside torch's dispatcher: live tensor storages, what they are kept for, and values the host waits for.

Every operator passes the dispatcher, in backward too, so each new storage is seen when it appears and, by a weak
reference, when it goes; autograd tells what it saves for the backward. Not seen: scratch space inside one operator,
and memory that torch does not own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bench.measure.attention import AttentionSeen
from bench.measure.device import Residents, Witnessed
from bench.measure.storages import LiveStorages, Use

_HOST_READS = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default}
_TO_COPY = torch.ops.aten._to_copy.default
_COPY = torch.ops.aten.copy_.default


class DispatchWitness(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Count live bytes of tensor storages, by use, and reads by the host while active [one process].

    Autograd's hooks give back what they are given, so that nothing lives longer for being witnessed. What activation
    checkpointing does not keep is not seen by them; what it makes again in the backward counts as kept for it.

    Args:
        residents: Gives what lives across updates; asked at both ends, and not kept.
        kept_on_host: Tensors whose reads are not counted, such as an optimizer's own step counts.
        device_type: Storages of this device are followed, reads from it are counted.
    """

    def __init__(
        self,
        residents: Callable[[], Residents] = Residents,
        kept_on_host: Iterable[torch.Tensor] = (),
        *,
        device_type: str = "cpu",
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._residents = residents
        self._kept_on_host = {id(tensor): tensor for tensor in kept_on_host}
        self._device_type = device_type
        self._hooks = saved_tensors_hooks(self._note_saved, _unchanged)
        self._attention = AttentionSeen()
        self.host_reads = 0
        self.storages = LiveStorages(device_type)

    def __enter__(self) -> DispatchWitness:
        self._see_residents()
        super().__enter__()  # type: ignore[no-untyped-call]
        self._attention.__enter__()  # type: ignore[no-untyped-call]
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._hooks.__exit__(*error)
        self._attention.__exit__(*error)  # type: ignore[no-untyped-call]
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._see_residents()

    def phase_begin(self, phase: str) -> None:
        """Note what the loop does from here on."""
        self.storages.phase = phase

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.host_reads += self._is_host_read(func, args, kwargs or {})
        self._attention.see(func)
        result = func(*args, **(kwargs or {}))
        use = self._use_of_result(func, args)
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.storages.see(leaf, use)
        return result

    def _use_of_result(self, func: Any, args: tuple[Any, ...]) -> Use:
        """Tell what an operator's result is for as far as the operator shows it."""
        if func is _TO_COPY and self.storages.use_of(args[0]) is Use.PARAMETER:
            return Use.WEIGHT_CAST
        # Only a forward that runs again inside the backward has gradients switched on there.
        is_made_again = self.storages.phase == "backward" and torch.is_grad_enabled()
        return Use.ACTIVATION if is_made_again else Use.TEMPORARY

    def _note_saved(self, tensor: torch.Tensor) -> torch.Tensor:
        self.storages.see(tensor, Use.ACTIVATION)
        return tensor

    def _see_residents(self) -> None:
        residents = self._residents()
        self.storages.see_all(residents.model, Use.PARAMETER)
        self.storages.see_all(residents.gradients, Use.GRADIENT)
        self.storages.see_all(residents.optimizer_state, Use.OPTIMIZER_STATE)
        for storage in residents.ddp_buckets:
            self.storages.see_storage(storage, Use.DDP_BUCKET)

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

    def result(self) -> Witnessed:
        """Give what was witnessed so far."""
        return Witnessed(self.storages.peak_bytes, self.host_reads, self.storages.parts(), self._attention.names)


def _unchanged(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], place: int, name: str) -> Any:
    """Give an argument however it was passed; None when it was not."""
    return args[place] if len(args) > place else kwargs.get(name)
