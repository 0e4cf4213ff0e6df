"""A window as the loop takes it: micro-batches, which of them is the last, and the plan.

*Buffered*: the micro-batches wait on the host and the plan is whole before the first forward. *Streamed*
(`bench.loop.streamed`): they are read one ahead, and the counts are known when the last one was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from bench.loop.agreement import Agreement
from bench.loop.plan import WindowCounts, WindowPlan


class Window(Protocol):
    """Hold one window of one rank; to be run once."""

    plan: WindowPlan

    def __iter__(self) -> Iterator[tuple[Any, bool]]:
        """Give each micro-batch of this rank, and whether it is this rank's last."""

    def settle(self) -> WindowPlan:
        """Give the plan with the counts of the whole window, once all micro-batches were given."""


class BufferedWindow:
    """Hold micro-batches that wait on the host."""

    def __init__(self, plan: WindowPlan, micro_batches: Sequence[Any]) -> None:
        self.plan = plan
        self._micro_batches = micro_batches

    def __iter__(self) -> Iterator[tuple[Any, bool]]:
        last = len(self._micro_batches) - 1
        return ((micro_batch, index == last) for index, micro_batch in enumerate(self._micro_batches))

    def settle(self) -> WindowPlan:
        """Give the plan, which was whole from the start."""
        return self.plan


def buffered_windows(
    micro_batches: Iterable[Any],
    accumulation_steps: int,
    count: Callable[[Any], WindowCounts],
    agreement: Agreement,
    drop_tail: bool,
    update: int,
) -> Iterator[Window]:
    """Group a stream into windows that wait on the host; see `bench.loop.grouping`."""
    stream = iter(micro_batches)
    waiting = list(islice(stream, accumulation_steps))
    agreement.begin(sum(map(count, waiting), WindowCounts()))
    is_first = True
    while True:
        agreed = agreement.finish()
        refuse_nothing(is_first and agreed.most_micro_batches == 0)
        is_partial = agreed.all_ranks.micro_batches < accumulation_steps * agreement.world_size
        if is_first and is_partial and drop_tail:
            held = agreed.all_ranks.micro_batches
            full = accumulation_steps * agreement.world_size
            raise ValueError(
                f"tail: drop leaves no update: {held} micro-batches never fill a window of {full}. Use tail keep."
            )
        if agreed.most_micro_batches == 0 or (is_partial and drop_tail):
            return
        plan = WindowPlan(
            update=update,
            micro_steps=agreed.most_micro_batches,
            this_rank=agreed.per_rank[agreement.rank],
            all_ranks=agreed.all_ranks,
            world_size=agreement.world_size,
            is_partial=is_partial,
        )
        current, waiting = waiting, list(islice(stream, accumulation_steps))
        agreement.begin(sum(map(count, waiting), WindowCounts()))
        yield BufferedWindow(plan, current)
        update, is_first = update + 1, False


def refuse_nothing(nothing: bool) -> None:
    """Refuse to make no update at all.

    Raises:
        ValueError: There is nothing.
    """
    if nothing:
        raise ValueError("no rank has any micro-batch: the data set is empty, or its iterator is exhausted.")
