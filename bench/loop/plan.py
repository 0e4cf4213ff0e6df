"""What a window holds: counts of one rank, and the plan that all ranks share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WindowCounts:
    """Count what one window, or one micro-batch, feeds [one rank, or all ranks, as the holder says].

    All are exact integers except the units, which are float64.
    """

    micro_batches: int = 0
    """Micro-batches: forward and backward passes."""
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
    """State what one window is; every rank holds the same figures, `this_rank` apart.

    The denominator of the update is `all_ranks.units`: the units of the whole window over all ranks, so the update
    does not depend on how the window is cut into micro-batches or ranks. A buffered window knows it before its first
    forward. A streamed one learns its counts at its end (they are 0 before), so each loss is divided by a nominal
    number of units meanwhile, and the gradients are corrected once.
    """

    update: int
    """Number of the update that ends this window, from 0 at the initial weights."""
    micro_steps: int
    """Most micro-batches any rank has; for a streamed window, the most any rank may have."""
    this_rank: WindowCounts = WindowCounts()
    all_ranks: WindowCounts = WindowCounts()
    world_size: int = 1
    is_partial: bool = False
    """True when the window holds less than a full one: the end of finite data."""
    nominal_units: float | None = None
    """Units a full streamed window is expected to hold over all ranks; None for a buffered window."""

    @property
    def is_streamed(self) -> bool:
        """Tell whether the counts are known at the end only."""
        return self.nominal_units is not None

    @property
    def is_empty(self) -> bool:
        """Tell whether no rank has anything that counts: such a window changes nothing."""
        return self.all_ranks.units == 0

    @property
    def loss_weight(self) -> float:
        """Give the factor on each summed loss: world size / units of all ranks (nominal ones when streamed).

        DistributedDataParallel averages gradients over ranks; the world size undoes that.
        """
        return self.world_size / (self.all_ranks.units if self.nominal_units is None else self.nominal_units)

    @property
    def gradient_correction(self) -> float:
        """Give the factor on the finished gradients: nominal / true units when streamed, else 1."""
        return 1.0 if self.nominal_units is None else self.nominal_units / self.all_ranks.units
