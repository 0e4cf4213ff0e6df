"""Windows for one rank: buffered and agreed one ahead, or streamed micro-batch by micro-batch."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Protocol

from bench.loop import Agreement, BufferedWindow, ReadAhead, StreamedWindow, Window, WindowCounts, WindowPlan
from bench.rank.counted_flops import Shapes, shapes_of
from bench.sweep.fields import TrialConfig
from bench.workload.batches import LaidOut, LayOut, token_rows
from bench.workload.micro_batches import own_chunks


class Source(Protocol):
    """Deal what is trained on to updates: sequences of tokens, or the samples of the user's own data set."""

    @property
    def has_prompts(self) -> bool:
        """Tell whether sequences hold tokens that are no targets."""

    def window(self, update: int, global_batch_size: int, positions: Sequence[int] | None = None) -> list[Any]:
        """Give what an update takes at these places of its window over all ranks."""

    def window_size(self, update: int, global_batch_size: int) -> int:
        """Count what an update takes over all ranks."""

    def full_rows(self, positions: Sequence[int]) -> list[Any]:
        """Give as many for the largest window there can be."""

    def held_out(self) -> list[Any]:
        """Give what no update takes."""


class Feed:
    """Give one window after another; update u always gets the same sequences, whatever the cut or mode [one rank].

    Args:
        source: Deals sequences to updates.
        config: The trial, resolved.
        agreement: How ranks agree on a window.
        make: Makes micro-batches of sequences; None for rows of tokens.
        counts_shapes: Whether `shapes` are noted.
        units_per_sequence: About how many units a sequence has, for streamed windows; None for seq_len. The same on
            all ranks.
    """

    def __init__(
        self,
        source: Source,
        config: TrialConfig,
        agreement: Agreement,
        make: LayOut | None = None,
        units_per_sequence: float | None = None,
        counts_shapes: bool = False,
    ) -> None:
        assert config.global_batch_size is not None, "the trial is resolved"
        self._source = source
        self.make: LayOut = token_rows(config, source.has_prompts) if make is None else make
        """Makes micro-batches of sequences."""
        self._units_per_sequence = config.seq_len if units_per_sequence is None else units_per_sequence
        self._config = config
        self._global_batch_size = config.global_batch_size
        self._agreement = agreement
        self._is_streamed = config.window_mode == "streamed"
        self.next_update = 0
        """Number of the update that the next window given belongs to."""
        self.wait_s = 0.0
        """Host time the loop waited for its data since it was last set to 0 [s]."""
        self.token_pairs: dict[int, int] = {}
        """Update -> sum over this rank's token slots of the width of their row: what attention costs."""
        self.padding_slots: dict[int, int] = {}
        """Update -> this rank's token slots that only fill up rows."""
        self.shapes: dict[int, Counter[Shapes]] | None = {} if counts_shapes else None
        """Update -> how often this rank's micro-batches had each shape; null where nobody asks."""
        self._full_rows_from: int | None = None
        self._sequences_at_most = config.global_batch_size
        self._waiting: Sequence[LaidOut] = []
        if not self._is_streamed:
            self._buffer(0)

    def want_full_rows(self) -> None:
        """Make the next window the largest there can be, every row of seq_len tokens, all valid; all ranks together."""
        self._full_rows_from = self.next_update
        self._cut_again()

    def shorten(self, micro_steps: int) -> None:
        """Cut the windows from the next one on to so many micro-steps at most; all ranks call it together."""
        config = self._config
        self._sequences_at_most = min(
            self._global_batch_size, micro_steps * config.micro_batch_size * config.world_size
        )
        self._cut_again()

    def next_window(self) -> Window:
        """Give the next window; when buffered, also cut the one after it and start to agree on it."""
        update = self.next_update
        window = self._stream(update) if self._is_streamed else self._take_buffered(update)
        self.next_update += 1
        return window

    def _take_buffered(self, update: int) -> Window:
        start = time.perf_counter_ns()
        agreed, micro_batches = self._agreement.finish(), self._waiting
        self._buffer(update + 1)
        plan = replace(
            self._plan(update, len(agreed.per_rank)),
            this_rank=agreed.per_rank[self._agreement.rank],
            all_ranks=agreed.all_ranks,
        )
        self.wait_s += (time.perf_counter_ns() - start) / 1e9
        return BufferedWindow(plan, micro_batches)

    def _cut_again(self) -> None:
        if not self._is_streamed:
            self._agreement.finish()  # on the window that was cut before
            self._buffer(self.next_update)

    def _buffer(self, update: int) -> None:
        self._waiting = self._lay_out(update, self._own_chunks(update))
        self.token_pairs[update] = self.padding_slots[update] = 0
        if self.shapes is not None:
            self.shapes.pop(update, None)
        self._note(update, self._waiting)
        self._agreement.begin(count_micro_batches(self._waiting))

    def _stream(self, update: int) -> Window:
        nominal_units = float(self._sequences_at_most * self._units_per_sequence)
        plan = replace(self._plan(update, self._config.world_size), nominal_units=nominal_units)
        return StreamedWindow(plan, ReadAhead(self._read(update)), count_micro_batch, self._agreement)

    def _read(self, update: int) -> Iterator[LaidOut]:
        """Cut this rank's micro-batches of a window one by one, so that only one exists at a time."""
        self.token_pairs[update] = self.padding_slots[update] = 0
        for chunk in self._own_chunks(update):
            begun = time.perf_counter_ns()
            laid_out = self._lay_out(update, [chunk])
            self.wait_s += (time.perf_counter_ns() - begun) / 1e9
            self._note(update, laid_out)
            yield from laid_out

    def _note(self, update: int, micro_batches: Sequence[LaidOut]) -> None:
        for micro_batch in micro_batches:
            self.token_pairs[update] += micro_batch.token_pairs
            self.padding_slots[update] += micro_batch.padding_slots
            if self.shapes is not None:
                self.shapes.setdefault(update, Counter())[shapes_of(micro_batch.tensors)] += 1

    def _plan(self, update: int, world_size: int) -> WindowPlan:
        size = self._size(update)
        micro_steps = -(-size // (self._config.micro_batch_size * world_size))
        return WindowPlan(update, micro_steps, world_size=world_size, is_partial=size < self._sequences_at_most)

    def _size(self, update: int) -> int:
        if update == self._full_rows_from:
            return self._sequences_at_most
        return min(self._source.window_size(update, self._global_batch_size), self._sequences_at_most)

    def _sequences(self, update: int, positions: Sequence[int]) -> list[Any]:
        """Give the sequences at these places of an update's window over all ranks."""
        if update == self._full_rows_from:
            return self._source.full_rows(positions)
        return self._source.window(update, self._global_batch_size, positions)

    def _own_chunks(self, update: int) -> list[range]:
        """Say which sequences of an update are this rank's; those of other ranks are not even read."""
        config = self._config
        return own_chunks(self._size(update), config.micro_batch_size, config.world_size, self._agreement.rank)

    def _lay_out(self, update: int, chunks: list[range]) -> Sequence[LaidOut]:
        """Lay some of this rank's sequences of an update into micro-batches."""
        in_order = iter(self._sequences(update, list(chain.from_iterable(chunks))))
        sequences = [list(islice(in_order, len(chunk))) for chunk in chunks]
        return self.make(sequences, self._config.device == "cuda")


def count_micro_batches(micro_batches: Sequence[LaidOut]) -> WindowCounts:
    """Count micro-batches together."""
    return WindowCounts(
        len(micro_batches),
        sum([micro_batch.sequences for micro_batch in micro_batches]),
        sum([micro_batch.valid_targets for micro_batch in micro_batches]),
        sum([micro_batch.token_slots for micro_batch in micro_batches]),
        math.fsum([micro_batch.unit_sum for micro_batch in micro_batches]),
    )


def count_micro_batch(micro_batch: LaidOut) -> WindowCounts:
    """Count one micro-batch."""
    return count_micro_batches([micro_batch])
