"""Autocast and gradient scaling of the four AMP modes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

AmpMode = Literal["fp32", "tf32", "bf16", "fp16"]

_AUTOCAST_DTYPES: dict[AmpMode, torch.dtype | None] = {
    "fp32": None,
    "tf32": None,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


class Precision:
    """Hold the AMP mode of a run: what is cast in forward, and how fp16 gradients are scaled.

    One loss scale serves a whole window: gradients of all its micro-batches accumulate under it, and it changes only
    after the update (torch, "Automatic Mixed Precision examples", section on gradient accumulation).
    """

    def __init__(self, amp_mode: AmpMode, device_type: str, **scaler_options: Any) -> None:
        self.amp_mode = amp_mode
        self.device_type = device_type
        self.autocast_dtype = _AUTOCAST_DTYPES[amp_mode]
        self.scaler = GradScaler(device_type, **scaler_options) if amp_mode == "fp16" else None
        self.loss_scale = self.scaler.get_scale() if self.scaler else None
        """The scale in force, mirrored on the host by torch's own rule, so that recording it reads nothing."""
        self._applied_in_a_row = 0

    def autocast(self) -> AbstractContextManager[Any]:
        """Give the context for forward and loss; the backward stays outside."""
        if self.autocast_dtype is None:
            return nullcontext()
        return torch.autocast(self.device_type, dtype=self.autocast_dtype)

    def scale(self, loss: Tensor) -> Tensor:
        """Multiply a loss by the window's scale; unchanged without a scaler."""
        return loss if self.scaler is None else self.scaler.scale(loss)

    def unscale(self, optimizer: Optimizer) -> None:
        """Bring the accumulated gradients back to their true size, once, before clipping."""
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)

    def step(self, optimizer: Optimizer) -> bool:
        """Make the optimizer step unless the scaled gradients overflowed; tell whether it was applied.

        With a scaler this reads one value from the device; otherwise none. Applied means that the optimizer's own
        step ran: a fused optimizer would take the overflow flag and skip inside its kernel, unseen, and (SGD with
        momentum, first update) leave its state unwritten; so the scaler is told to treat all optimizers alike.
        """
        if self.scaler is None:
            optimizer.step()
            return True
        optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
        ran = []
        handle = optimizer.register_step_post_hook(lambda *_: ran.append(True))
        try:
            self.scaler.step(optimizer)
        finally:
            handle.remove()
        self.scaler.update()
        self._mirror_scale(applied=bool(ran))
        return bool(ran)

    def _mirror_scale(self, applied: bool) -> None:
        """Follow GradScaler.update on the host: back off after a skip, grow after enough applied updates in a row."""
        assert self.scaler is not None
        assert self.loss_scale is not None
        if not applied:
            self.loss_scale *= self.scaler.get_backoff_factor()
            self._applied_in_a_row = 0
            return
        self._applied_in_a_row += 1
        if self._applied_in_a_row == self.scaler.get_growth_interval():
            self.loss_scale *= self.scaler.get_growth_factor()
            self._applied_in_a_row = 0
