"""Deal what can be trained on to updates: a pure function (seed, global batch, update) -> numbers of sequences.

Update u takes the numbers u*G .. u*G + G-1 of the concatenated seeded permutations, whatever the micro-batch, the world
size or the order in which updates are asked for. With `sequences_per_epoch` an update ends at the end of an epoch
instead, which is where partial windows come from. Of enough sequences a few, spread evenly, are held out for the
validation loss: no update takes them.
"""

# n = sequences per epoch, G = global batch [sequences]

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.errors import BenchError

HELD_OUT_AT_MOST = 64
"""Sequences held out of training at most; fewer from a small corpus: one in a hundred, rounded down."""


class Deal:
    """Hold the order in which sequences are trained on.

    Attributes:
        num_sequences: Sequences of one epoch, held-out ones not among them [sequences].
        held_out: (at most 64,) int64 numbers of those that no update takes.
        trained_on: (N - held out,) int64 numbers of the others; an epoch is the first `num_sequences` of them.
    """

    def __init__(
        self,
        available: int,
        seed: int,
        sequences_per_epoch: int | None,
        tail: Literal["keep", "drop"],
        source: str,
    ) -> None:
        """Prepare the deal of so many sequences; `tail` acts on finite sources only.

        Raises:
            BenchError: An epoch has more sequences than there are to train on; `source` says of what.
        """
        self._seed = seed
        self._tail = tail
        self._is_finite = sequences_per_epoch is not None
        held_out = min(HELD_OUT_AT_MOST, available // 100)
        self.held_out = (2 * np.arange(held_out) + 1) * available // (2 * held_out) if held_out else np.arange(0)
        self.trained_on = np.delete(np.arange(available), self.held_out)
        trained_on = int(self.trained_on.size)
        if sequences_per_epoch is not None and sequences_per_epoch > trained_on:
            raise BenchError(
                f"data.sequences_per_epoch = {sequences_per_epoch}, but {source} has only {trained_on} training "
                f"sequences. Use at most {trained_on}."
            )
        self.num_sequences: int = trained_on if sequences_per_epoch is None else sequences_per_epoch
        self._permutations: dict[int, NDArray[np.int64]] = {}

    def window_size(self, update: int, global_batch_size: int) -> int:
        """Count the sequences of one update over all ranks [sequences]."""
        updates_per_epoch = self.updates_per_epoch(global_batch_size)
        if updates_per_epoch is None:
            return global_batch_size
        return min(global_batch_size, self.num_sequences - update % updates_per_epoch * global_batch_size)

    def updates_per_epoch(self, global_batch_size: int) -> int | None:
        """Count the updates of one epoch; None where windows run across epochs [updates].

        Raises:
            BenchError: An epoch holds no whole window and `tail` is `drop`.
        """
        if not self._is_finite:
            return None
        if self._tail == "keep":
            return -(-self.num_sequences // global_batch_size)
        if self.num_sequences < global_batch_size:
            raise BenchError(
                f"data.sequences_per_epoch = {self.num_sequences} never fills a window of global_batch_size = "
                f"{global_batch_size} sequences, and tail: drop leaves partial ones out. Use tail: keep, or at least "
                f"{global_batch_size} sequences."
            )
        return self.num_sequences // global_batch_size

    def numbers(self, update: int, global_batch_size: int) -> NDArray[np.int64]:
        """Find which sequences an update takes, over all ranks: (<= G,) int64.

        Raises:
            BenchError: An epoch holds no whole window and `tail` is `drop`.
        """
        n = self.num_sequences
        updates_per_epoch = self.updates_per_epoch(global_batch_size)
        if updates_per_epoch is not None:
            epoch, window_of_epoch = divmod(update, updates_per_epoch)
            start = window_of_epoch * global_batch_size
            return self._permutation(epoch)[start : start + global_batch_size]
        first, stop = update * global_batch_size, (update + 1) * global_batch_size
        parts = [
            self._permutation(epoch)[max(first - epoch * n, 0) : stop - epoch * n]
            for epoch in range(first // n, (stop - 1) // n + 1)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _permutation(self, epoch: int) -> NDArray[np.int64]:
        """Shuffle the sequences of one epoch; the last two asked for are kept, since a window may straddle a border."""
        if epoch not in self._permutations:
            if len(self._permutations) >= 2:
                del self._permutations[next(iter(self._permutations))]
            order = np.random.default_rng([self._seed, epoch]).permutation(self.num_sequences)
            self._permutations[epoch] = self.trained_on[order]
        return self._permutations[epoch]
