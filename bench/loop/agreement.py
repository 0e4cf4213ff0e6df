"""What ranks tell each other about a window: gathered over the hosts, while the window before it still runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Protocol

import torch
import torch.distributed as dist

from bench.loop.plan import WindowCounts


@dataclass(frozen=True)
class Agreed:
    """State what all ranks said; the same on every rank."""

    per_rank: tuple[WindowCounts, ...]
    more: bool
    """Whether any rank has data left after this."""

    @property
    def all_ranks(self) -> WindowCounts:
        """Add the ranks up, in the order of their numbers, so that float64 units are bit-equal on every rank."""
        return reduce(add, self.per_rank)

    @property
    def most_micro_batches(self) -> int:
        """Count the micro-batches of the rank that has most."""
        return max(counts.micro_batches for counts in self.per_rank)


class Agreement(Protocol):
    """Exchange one window's counts with all ranks."""

    rank: int
    world_size: int

    def begin(self, counts: WindowCounts, more: bool = True) -> None:
        """Tell the other ranks what this rank has, and whether it has data left after that; does not wait."""

    def finish(self) -> Agreed:
        """Give what all ranks said in the exchange begun last; waits for the slowest host, never for a device."""


class SingleRankAgreement:
    """Agree with nobody."""

    rank = 0
    world_size = 1

    def __init__(self) -> None:
        self._said: Agreed | None = None

    def begin(self, counts: WindowCounts, more: bool = True) -> None:
        """Keep what was said."""
        self._said = Agreed((counts,), more)

    def finish(self) -> Agreed:
        """Give it back."""
        assert self._said is not None, "begin comes before finish"
        return self._said


class GlooAgreement:
    """Gather over a gloo group of its own, so that no host waits on the device, or on its collectives, for a count.

    Counts travel as int64, and the float64 units as their bits, so everything arrives exactly.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self._group = group
        self.rank = dist.get_rank(group)
        self.world_size = dist.get_world_size(group)
        self._gathered: list[torch.Tensor] = []
        self._work: Any = None

    def begin(self, counts: WindowCounts, more: bool = True) -> None:
        """Start gathering; returns at once."""
        units = torch.tensor([counts.units], dtype=torch.float64).view(torch.int64)
        integers = [counts.micro_batches, counts.sequences, counts.valid_tokens, counts.token_slots, int(more)]
        mine = torch.cat([torch.tensor(integers, dtype=torch.int64), units])
        self._gathered = [torch.empty_like(mine) for _ in range(self.world_size)]
        self._work = dist.all_gather(self._gathered, mine, group=self._group, async_op=True)

    def finish(self) -> Agreed:
        """Wait for every rank."""
        assert self._work is not None, "begin comes before finish"
        self._work.wait()
        self._work = None
        units = [gathered[5:].view(torch.float64).tolist()[0] for gathered in self._gathered]
        rows: list[list[int]] = [gathered[:5].tolist() for gathered in self._gathered]
        per_rank = tuple(
            WindowCounts(row[0], row[1], row[2], row[3], own) for row, own in zip(rows, units, strict=True)
        )
        return Agreed(per_rank, any(row[4] for row in rows))
