"""A window for data too large to buffer: read one micro-batch ahead, counted while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from bench.loop.agreement import Agreed, Agreement
from bench.loop.buffered import Window, refuse_nothing
from bench.loop.plan import WindowCounts, WindowPlan

_END: Any = object()


class ReadAhead(Iterator[Any]):
    """Read one item ahead and no more, to know whether there is another."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = iter(items)
        self._ahead = next(self._items, _END)

    @property
    def has_next(self) -> bool:
        """Tell whether an item is left."""
        return self._ahead is not _END

    def __next__(self) -> Any:
        if self._ahead is _END:
            raise StopIteration
        item, self._ahead = self._ahead, next(self._items, _END)
        return item


class StreamedWindow:
    """Read at most `plan.micro_steps` micro-batches one ahead, and tell the other ranks what they held.

    At most the micro-batch that runs and the next one are on the host. The exchange begins when the last micro-batch
    was read, before its forward, so it is over when the gradients are.
    """

    def __init__(
        self, plan: WindowPlan, stream: ReadAhead, count: Callable[[Any], WindowCounts], agreement: Agreement
    ) -> None:
        assert plan.is_streamed, "a streamed window needs nominal units"
        self.plan = plan
        self._stream, self._count, self._agreement = stream, count, agreement
        self._counts = WindowCounts()
        self._has_begun = False
        self.agreed: Agreed | None = None
        """What all ranks said, once settled."""

    def __iter__(self) -> Iterator[tuple[Any, bool]]:
        for taken in range(1, self.plan.micro_steps + 1):
            micro_batch = next(self._stream, _END)
            if micro_batch is _END:
                break
            self._counts += self._count(micro_batch)
            is_last = taken == self.plan.micro_steps or not self._stream.has_next
            if is_last:
                self._begin()
            yield micro_batch, is_last
            del micro_batch
        if not self._has_begun:
            self._begin()

    def settle(self) -> WindowPlan:
        """Wait for all ranks' counts and complete the plan; partial when it holds fewer micro-batches than it may."""
        if self.agreed is None:
            self.agreed = self._agreement.finish()
            total = self.agreed.all_ranks
            mine = self.agreed.per_rank[self._agreement.rank]
            partial = total.micro_batches < self.plan.micro_steps * self.plan.world_size
            partial = partial or self.plan.is_partial
            self.plan = replace(self.plan, this_rank=mine, all_ranks=total, is_partial=partial)
        return self.plan

    def _begin(self) -> None:
        self._agreement.begin(self._counts, self._stream.has_next)
        self._has_begun = True


def streamed_windows(
    micro_batches: Iterable[Any],
    accumulation_steps: int,
    count: Callable[[Any], WindowCounts],
    agreement: Agreement,
    nominal_units: float,
    update: int,
) -> Iterator[Window]:
    """Group a stream into windows that are read while they run; see `bench.loop.grouping`."""
    stream = ReadAhead(micro_batches)
    agreement.begin(WindowCounts(), stream.has_next)
    more = agreement.finish().more
    refuse_nothing(not more)
    while more:
        plan = WindowPlan(update, accumulation_steps, world_size=agreement.world_size, nominal_units=nominal_units)
        window = StreamedWindow(plan, stream, count, agreement)
        yield window
        if window.agreed is None:
            raise RuntimeError(f"window {update} did not run before the next one was requested.")
        more, update = window.agreed.more, update + 1
