"""Gradients over ranks: synchronised once a window, on its last micro-batch."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

from torch import nn
from torch.nn.parallel import DistributedDataParallel

GradientSyncAxis = Literal["last", "every"]


class GradientSync:
    """Run micro-steps on one rank: nothing to synchronise."""

    world_size = 1

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def micro_step(self, is_last: bool) -> AbstractContextManager[Any]:
        """Give the context for forward and backward of one micro-batch."""
        del is_last
        return nullcontext()


class DdpGradientSync(GradientSync):
    """Run micro-steps on several ranks: all-reduce in the window's last backward only, or in every one when asked.

    `no_sync` must cover the forward too: DistributedDataParallel decides there whether the coming backward reduces.
    """

    def __init__(
        self, model: DistributedDataParallel, world_size: int, gradient_sync: GradientSyncAxis = "last"
    ) -> None:
        super().__init__(model)
        self._ddp = model
        self.world_size = world_size
        self._every = gradient_sync == "every"

    def micro_step(self, is_last: bool) -> AbstractContextManager[Any]:
        """Give `no_sync` for all but the last micro-batch."""
        return nullcontext() if is_last or self._every else self._ddp.no_sync()
