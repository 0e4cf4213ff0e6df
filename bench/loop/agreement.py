"""What all ranks must know of a window before it starts: agreed one window ahead, over the hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist

from bench.loop.plan import WindowCounts, WindowPlan


def plan_window(
    update: int, micro_steps: int, rank: int, counts_per_rank: Sequence[WindowCounts], full_sequences: int
) -> WindowPlan:
    """Make the plan from every rank's counts; `full_sequences` is what a full window holds over all ranks."""
    total = WindowCounts()
    for counts in counts_per_rank:
        total = total + counts
    return WindowPlan(
        update=update,
        micro_steps=micro_steps,
        this_rank=counts_per_rank[rank],
        all_ranks=total,
        world_size=len(counts_per_rank),
        is_partial=total.sequences < full_sequences,
    )


class Agreement(Protocol):
    """Turn this rank's counts of a window into the plan that all ranks share."""

    def begin(self, update: int, micro_steps: int, counts: WindowCounts) -> None:
        """Tell the other ranks what this rank has for an update; does not wait."""

    def finish(self) -> WindowPlan:
        """Give the plan of the update begun last; waits for the slowest rank."""


class SingleRankAgreement:
    """Agree with nobody."""

    def __init__(self, full_sequences: int) -> None:
        self._full_sequences = full_sequences
        self._begun: tuple[int, int, WindowCounts] | None = None

    def begin(self, update: int, micro_steps: int, counts: WindowCounts) -> None:
        """Keep the counts."""
        self._begun = (update, micro_steps, counts)

    def finish(self) -> WindowPlan:
        """Give the plan of this rank alone."""
        assert self._begun is not None, "begin comes before finish"
        update, micro_steps, counts = self._begun
        return plan_window(update, micro_steps, 0, [counts], self._full_sequences)


class GlooAgreement:
    """Gather every rank's counts over a gloo group of its own, so that no host waits on the device for a count.

    Counts travel as float64, exact for integers below 2**53.
    """

    def __init__(self, full_sequences: int, group: dist.ProcessGroup | None) -> None:
        self._full_sequences = full_sequences
        self._group = group
        self._rank = dist.get_rank(group)
        self._world_size = dist.get_world_size(group)
        self._update = -1
        self._gathered: list[torch.Tensor] = []
        self._work: Any = None

    def begin(self, update: int, micro_steps: int, counts: WindowCounts) -> None:
        """Start gathering; returns at once."""
        mine = torch.tensor(
            [
                micro_steps,
                counts.micro_batches,
                counts.sequences,
                counts.valid_tokens,
                counts.token_slots,
                counts.units,
            ],
            dtype=torch.float64,
        )
        self._update = update
        self._gathered = [torch.empty_like(mine) for _ in range(self._world_size)]
        self._work = dist.all_gather(self._gathered, mine, group=self._group, async_op=True)

    def finish(self) -> WindowPlan:
        """Wait for every rank's counts and make the plan."""
        assert self._work is not None, "begin comes before finish"
        self._work.wait()
        figures = [gathered.tolist() for gathered in self._gathered]
        counts = [WindowCounts(int(row[1]), int(row[2]), int(row[3]), int(row[4]), row[5]) for row in figures]
        return plan_window(self._update, int(max(row[0] for row in figures)), self._rank, counts, self._full_sequences)
