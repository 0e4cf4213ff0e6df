"""Windows for one rank, prepared on the host one ahead and agreed with the other ranks before they start."""

from __future__ import annotations

import time
from dataclasses import replace

from bench.loop.agreement import Agreement
from bench.loop.plan import WindowCounts, WindowPlan
from bench.sweep.fields import TrialConfig
from bench.workload.micro_batches import MicroBatch, cut_window
from bench.workload.sequences import SequenceSource


class Feed:
    """Give the next window's plan and micro-batches; update u always gets the same sequences [one rank]."""

    def __init__(self, source: SequenceSource, config: TrialConfig, rank: int, agreement: Agreement) -> None:
        assert config.global_batch_size is not None, "the trial is resolved"
        self._source = source
        self._config = config
        self._global_batch_size = config.global_batch_size
        self._rank = rank
        self._agreement = agreement
        self._pin = config.device == "cuda"
        self._next_update = 0
        self._full_rows_wanted = False
        self._prepared: list[MicroBatch] = []
        self.wait_s = 0.0
        """Host time spent in `next_window` since it was last set to 0: the loop waits for its data meanwhile [s]."""
        self._prepare()

    def want_full_rows(self) -> None:
        """Make the window prepared next the largest there can be: every row of seq_len tokens, all valid."""
        self._full_rows_wanted = True

    def next_window(self) -> tuple[WindowPlan, list[MicroBatch]]:
        """Give the next window and prepare the one after it."""
        start = time.perf_counter_ns()
        plan, micro_batches = self._agreement.finish(), self._prepared
        self._prepare()
        self.wait_s += (time.perf_counter_ns() - start) / 1e9
        return plan, micro_batches

    def _prepare(self) -> None:
        update, config = self._next_update, self._config
        if self._full_rows_wanted:
            sequences = self._source.full_rows(self._global_batch_size)
            self._full_rows_wanted = False
        else:
            sequences = self._source.window(update, self._global_batch_size)
        micro_batches = cut_window(
            sequences, config.micro_batch_size, config.world_size, self._rank, config.data.rows, config.seq_len
        )
        self._prepared = [_pinned(micro_batch) for micro_batch in micro_batches] if self._pin else micro_batches
        self._agreement.begin(update, len(micro_batches), count_micro_batches(micro_batches))
        self._next_update += 1


def count_micro_batches(micro_batches: list[MicroBatch]) -> WindowCounts:
    """Add up what one rank's micro-batches of a window hold; the unit of a language model is the valid target."""
    return WindowCounts(
        micro_batches=sum(micro_batch.sequences > 0 for micro_batch in micro_batches),
        sequences=sum(micro_batch.sequences for micro_batch in micro_batches),
        valid_tokens=sum(micro_batch.valid_targets for micro_batch in micro_batches),
        token_slots=sum(micro_batch.token_slots for micro_batch in micro_batches),
        units=sum(micro_batch.unit_sum for micro_batch in micro_batches),
    )


def _pinned(micro_batch: MicroBatch) -> MicroBatch:
    """Move to page-locked host memory, from where a copy to the GPU need not wait."""
    return replace(micro_batch, inputs=micro_batch.inputs.pin_memory(), targets=micro_batch.targets.pin_memory())
