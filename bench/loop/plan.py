"""What a window holds, known before its first forward."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WindowCounts:
    """Count what one window feeds [one rank, or all ranks, as the holder says]. All int64 except the units."""

    micro_batches: int = 0
    """Micro-batches that hold at least one sequence."""
    sequences: int = 0
    """Sequences (examples)."""
    valid_tokens: int = 0
    """Targets that are not ignored [tokens]."""
    token_slots: int = 0
    """Elements really fed, padding included [tokens]."""
    units: float = 0.0
    """What the loss is a mean over: examples, valid targets, or the sum of the class weights of valid targets."""

    def __add__(self, other: WindowCounts) -> WindowCounts:
        return WindowCounts(
            self.micro_batches + other.micro_batches,
            self.sequences + other.sequences,
            self.valid_tokens + other.valid_tokens,
            self.token_slots + other.token_slots,
            self.units + other.units,
        )


@dataclass(frozen=True)
class WindowPlan:
    """State what one window is, before it starts; every rank holds the same figures for `all_ranks`.

    The denominator of the update is `all_ranks.units`: the units of the whole window over all ranks, so the update
    does not depend on how the window is cut into micro-batches or ranks.
    """

    update: int
    """Number of the update that ends this window, from 0 at the initial weights."""
    micro_steps: int
    """Forward and backward passes every rank makes: the most that any rank has micro-batches for."""
    this_rank: WindowCounts
    all_ranks: WindowCounts
    world_size: int = 1
    is_partial: bool = False
    """True when the window has fewer sequences than a full one: the end of finite data."""

    @property
    def is_empty(self) -> bool:
        """Tell whether no rank has anything that counts: such a window changes nothing."""
        return self.all_ranks.units == 0

    @property
    def loss_weight(self) -> float:
        """Give the factor on each summed loss: world size / units of all ranks.

        DistributedDataParallel averages gradients over ranks; the world size undoes that.
        """
        return 0.0 if self.is_empty else self.world_size / self.all_ranks.units
