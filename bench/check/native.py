"""The loop of `bench` as a training step of the proof, with what it says about itself."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from bench.check.oracle import Batch
from bench.loop import (
    AccumulationLoop,
    Agreement,
    DdpGradientSync,
    GradientSync,
    Precision,
    SingleRankAgreement,
    SummedCrossEntropy,
    UpdateResult,
    windows,
)


@dataclass
class NativeStep:
    """Run the loop of `bench` over a data set [one rank].

    Args of the call are those of a user's step; what the loop reported is kept beside.
    """

    class_weights: torch.Tensor | None = None
    window_mode: str = "buffered"
    gradient_sync: str = "last"
    has_scaler: bool = False
    """Whether losses are scaled as under fp16; in float64 a scale that is a power of two changes nothing."""
    agreement: Agreement = field(default_factory=SingleRankAgreement)
    nominal_units: float = 32.0
    """What streamed windows divide by at first: on purpose not the true number."""
    amp_mode: Any = None
    """Run under this mode's autocast; None for float64."""
    device: str = "cpu"
    results: list[UpdateResult] = field(default_factory=list)
    sync_rounds: int = 0
    """Gradient synchronisations of all updates so far."""
    _synced: tuple[nn.Module, GradientSync] | None = None

    def __call__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        micro_batches: list[Batch],
        accumulation_steps: int,
        clip_norm: float = math.inf,
        schedule: LRScheduler | None = None,
    ) -> None:
        """Train on all windows of this rank's micro-batches."""
        if self._synced is None or self._synced[0] is not model:  # one for all passes: each leaves hooks in the model
            self._synced = (model, self._sync(model))
        loss = SummedCrossEntropy(self.class_weights)
        loop = AccumulationLoop(
            self._synced[1],
            optimizer,
            loss,
            self._precision(),
            torch.device(self.device),
            clip_norm=None if math.isinf(clip_norm) else clip_norm,
            schedule=schedule,
        )
        options: dict[str, Any] = {"window_mode": self.window_mode, "agreement": self.agreement}
        if self.window_mode == "streamed":
            options["nominal_units"] = self.nominal_units
        for window in windows(micro_batches, accumulation_steps, loss.count, **options):
            self.results.append(loop.run_window(window))

    def _precision(self) -> Precision:
        if self.amp_mode is not None:
            options = {"init_scale": 1024.0} if self.amp_mode == "fp16" else {}
            return Precision(self.amp_mode, self.device, **options)
        precision = Precision("fp16" if self.has_scaler else "fp32", "cpu")
        precision.autocast_dtype = None
        return precision

    def _sync(self, model: nn.Module) -> GradientSync:
        if self.agreement.world_size == 1:
            return GradientSync(model)
        sync = DdpGradientSync(model, "every" if self.gradient_sync == "every" else "last")
        # torch reads the annotations of a hook, and refuses those that are text: a lambda has none.
        sync.model.register_comm_hook(None, lambda _, bucket: self._reduce(bucket))  # type: ignore[operator]
        return sync

    def _reduce(self, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        self.sync_rounds += bucket.is_last()
        return allreduce_hook(None, bucket)  # type: ignore[arg-type]
