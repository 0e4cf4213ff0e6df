"""Autocast and gradient scaling of the four AMP modes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from bench.loop.host_scale import HostScale

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
        self._host_scale = None if self.scaler is None else HostScale(self.scaler)
        self._is_scale_made = False

    @property
    def loss_scale(self) -> float | None:
        """Give the scale in force without reading it from the device; None without a scaler."""
        return None if self._host_scale is None else self._host_scale.value

    def check(self, parameters: Iterable[nn.Parameter]) -> None:
        """Refuse what the gradient scaler cannot serve.

        Raises:
            ValueError: fp16 with parameters stored in float16, whose gradients torch refuses to unscale.
        """
        if self.scaler is not None and any(parameter.dtype == torch.float16 for parameter in parameters):
            raise ValueError(
                "amp_mode fp16 does not work with weights stored in float16: the gradient scaler cannot unscale "
                "float16 gradients. Load the model in float32 (autocast makes the float16 copies), or use fp32 or bf16."
            )

    def autocast(self) -> AbstractContextManager[Any]:
        """Give the context for forward and loss; the backward stays outside."""
        if self.autocast_dtype is None:
            return nullcontext()
        return torch.autocast(self.device_type, dtype=self.autocast_dtype)

    def scale(self, loss: Tensor) -> Tensor:
        """Multiply a loss by the window's scale; unchanged without a scaler."""
        if self.scaler is None:
            return loss
        self._is_scale_made = True
        return self.scaler.scale(loss)

    def unscale(self, optimizer: Optimizer) -> None:
        """Bring the accumulated gradients back to their true size, once, before clipping."""
        if self.scaler is None:
            return
        if not self._is_scale_made:
            # The scaler makes its scale at the first loss, and a rank without data has none.
            self.scale(torch.zeros((), device=optimizer.param_groups[0]["params"][0].device))
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
        assert self._host_scale is not None
        self._host_scale.follow(applied=bool(ran))
        return bool(ran)

    def state_dict(self) -> dict[str, Any]:
        """Collect the scaler's state and its mirror, for a checkpoint; empty without a scaler."""
        if self.scaler is None or self._host_scale is None:
            return {}
        return {"scaler": self.scaler.state_dict(), "host_scale": self._host_scale.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put a collected state back."""
        if self.scaler is not None and self._host_scale is not None:
            self.scaler.load_state_dict(state["scaler"])
            self._host_scale.load_state_dict(state["host_scale"])
