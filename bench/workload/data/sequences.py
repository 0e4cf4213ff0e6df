"""Data as a pure function (seed, global batch, update) -> sequences, so that every cut of a window sees the same data.

Update u takes sequences u*G .. u*G + G-1 of the concatenated seeded permutations of the corpus, whatever the
micro-batch, the world size or the order in which updates are asked for. A source that is finite by request
(`sequences_per_epoch`) ends its windows at the end of each epoch instead, which is where partial windows come from.
Of a corpus with enough sequences, a few spread evenly over it are held out for the validation loss: no update takes
them.
"""

# N = tokens of the corpus, n = sequences per epoch, G = global batch [sequences], T = seq_len [tokens]

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.errors import BenchError
from bench.workload.data.corpus import Corpus

Rows = Literal["ragged", "padded", "packed"]
Sequence1D = NDArray[np.int64]
"""(<= T+1,) token ids; one that is no target, as in a prompt, is given as its complement ~id, which is negative."""

HELD_OUT_AT_MOST = 64
"""Sequences held out of training at most; fewer from a small corpus: one in a hundred, rounded down."""


class SequenceSource:
    """Cut a corpus into sequences and deal them to updates.

    A sequence has at most T+1 tokens: T inputs, and the same shifted by one as targets. `packed` cuts the token
    stream, document borders included, into rows of T+1 tokens with stride T; the last few tokens that fill no row are
    left out. `ragged` and `padded` take one document as one sequence, cut at T+1 tokens; a document of one token has
    nothing to predict and is left out. A sequence none of whose tokens is a target, as where the prompt fills it, is
    one like any other.

    Attributes:
        num_sequences: Sequences of one epoch, held-out ones not among them [sequences].
        has_prompts: Whether sequences may hold tokens that are no targets, given as complements.
    """

    def __init__(
        self,
        corpus: Corpus,
        rows: Rows,
        seq_len: int,
        seed: int,
        sequences_per_epoch: int | None = None,
        tail: Literal["keep", "drop"] = "keep",
    ) -> None:
        """Prepare the source; with `sequences_per_epoch` n, an epoch is the first n sequences of the corpus.

        `tail` acts on finite sources only: `drop` leaves the partial window at an epoch's end out.

        Raises:
            BenchError: The corpus has no document borders for ragged or padded rows, too few sequences, or no target.
        """
        self._tokens = np.asarray(corpus.tokens)  # a plain view: slicing a memmap object costs several times as much
        self.has_prompts = corpus.is_prompt is not None
        self._is_prompt = None if corpus.is_prompt is None else np.asarray(corpus.is_prompt)
        self._seed = seed
        self._seq_len = seq_len
        self._tail = tail
        self._is_finite = sequences_per_epoch is not None
        if rows == "packed":
            self._starts = np.arange((self._tokens.size - 1) // seq_len, dtype=np.int64) * seq_len
            self._stops = self._starts + seq_len + 1
        else:
            if not corpus.has_document_borders:
                raise BenchError(
                    f"data.rows = {rows} needs document borders, but {corpus.source} is one stream of tokens. "
                    "Use rows: packed, or add end_of_text, the id that ends a document."
                )
            offsets = np.asarray(corpus.offsets)
            long_enough = np.flatnonzero(np.diff(offsets) >= 2)
            self._starts = offsets[long_enough]
            self._stops = np.minimum(offsets[long_enough + 1], self._starts + seq_len + 1)
        in_corpus = int(self._starts.size)
        held_out = min(HELD_OUT_AT_MOST, in_corpus // 100)
        self._held_out = (2 * np.arange(held_out) + 1) * in_corpus // (2 * held_out) if held_out else np.arange(0)
        self._trained_on = np.delete(np.arange(in_corpus), self._held_out)
        available = int(self._trained_on.size)
        if available == 0:
            raise BenchError(
                f"{corpus.source} has {self._tokens.size} tokens, too few for one sequence with rows: {rows}, "
                f"seq_len = {seq_len}. Use more text or a shorter seq_len."
            )
        if sequences_per_epoch is not None and sequences_per_epoch > available:
            raise BenchError(
                f"data.sequences_per_epoch = {sequences_per_epoch}, but {corpus.source} has only {available} training "
                f"sequences with rows: {rows}, seq_len = {seq_len}. Use at most {available}."
            )
        self.num_sequences: int = available if sequences_per_epoch is None else sequences_per_epoch
        if not self._has_target():
            raise BenchError(
                f"{corpus.source} has nothing to predict with rows: {rows}, seq_len = {seq_len}: prompts fill every "
                "sequence. Use a longer seq_len."
            )
        self._permutations: dict[int, NDArray[np.int64]] = {}
        self._full_row_starts: NDArray[np.int64] | None = None

    def window(self, update: int, global_batch_size: int, positions: Sequence[int] | None = None) -> list[Sequence1D]:
        """Give the sequences of one update over all ranks, each (<= T+1,) int64 [tokens].

        Exactly G sequences, fewer only at the end of an epoch of a finite source; with `positions`, only those at
        these places of the window, and no other is read. Any update may be asked for at any time.

        Raises:
            BenchError: An epoch holds no whole window and `tail` is `drop`.
        """
        indices = self._indices(update, global_batch_size)
        return [self._sequence(index) for index in (indices if positions is None else indices[list(positions)])]

    def window_size(self, update: int, global_batch_size: int) -> int:
        """Count the sequences of one update over all ranks without reading them [sequences]."""
        updates_per_epoch = self.updates_per_epoch(global_batch_size)
        if updates_per_epoch is None:
            return global_batch_size
        return min(global_batch_size, self.num_sequences - update % updates_per_epoch * global_batch_size)

    def held_out(self) -> list[Sequence1D]:
        """Give the sequences that no update takes, each (<= T+1,) int64 [tokens].

        They depend on the corpus, the rows and T alone; there are none where the corpus has less than 100 sequences.
        """
        return [self._sequence(int(index)) for index in self._held_out]

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

    def full_rows(self, positions: Sequence[int]) -> list[Sequence1D]:
        """Give sequences of exactly T+1 tokens, all targets, for the largest window there can be.

        Whatever the rows setting, they are those at `positions` of the packed rows from the start of the corpus that
        predict no held-out token, again from the start after the last; a corpus that is shorter than one row is
        repeated to fill it, and one that has no such row gives all its rows. Tokens of prompts are targets like any
        other.
        """
        width = self._seq_len + 1
        if self._tokens.size < width:
            row: Sequence1D = np.resize(self._tokens, width).astype(np.int64)
            return [row] * len(positions)
        if self._full_row_starts is None:
            self._full_row_starts = self._find_full_rows()
        starts = self._full_row_starts
        return [self._tokens[i : i + width].astype(np.int64) for i in starts[np.asarray(positions, int) % starts.size]]

    def _find_full_rows(self) -> NDArray[np.int64]:
        """Find the packed rows none of whose targets is a target of a held-out sequence."""
        starts = np.arange((self._tokens.size - 1) // self._seq_len, dtype=np.int64) * self._seq_len
        if self._held_out.size == 0:
            return starts
        # Targets of a sequence are its tokens but the first, so two neighbours may share a border token.
        began = np.searchsorted(self._starts[self._held_out] + 1, starts + self._seq_len + 1)
        ended = np.searchsorted(self._stops[self._held_out], starts + 1, side="right")
        free = starts[began == ended]
        return free if free.size else starts

    def _indices(self, update: int, global_batch_size: int) -> NDArray[np.int64]:
        """Find which sequences of the corpus an update takes."""
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
            self._permutations[epoch] = self._trained_on[order]
        return self._permutations[epoch]

    def lengths(self) -> NDArray[np.int64]:
        """Give the lengths of the sequences of one epoch, their inputs alone: T at most [tokens]."""
        indices = self._trained_on[: self.num_sequences]
        return self._stops[indices] - self._starts[indices] - 1

    def length_percentiles(self) -> dict[str, int]:
        """Give the median and the 95th percentile of `lengths`, as columns of a row [tokens].

        Each is a length that occurs: the least that so many of the sequences do not exceed (Hyndman and Fan's type 1).
        """
        lengths = self.lengths()
        return {
            f"sequence_tokens_p{share}": int(np.percentile(lengths, share, method="inverted_cdf")) for share in (50, 95)
        }

    def _has_target(self) -> bool:
        """Look for one token that an update may have to predict; mostly the first sequence has one."""
        if self._is_prompt is None:
            return True
        indices = self._trained_on[: self.num_sequences]
        return any(not self._is_prompt[self._starts[i] + 1 : self._stops[i]].all() for i in indices)

    def _sequence(self, index: int) -> Sequence1D:
        part = slice(self._starts[index], self._stops[index])
        tokens = self._tokens[part].astype(np.int64)
        return tokens if self._is_prompt is None else np.where(self._is_prompt[part], ~tokens, tokens)
