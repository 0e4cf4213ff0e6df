"""Data as a pure function (seed, global batch, update) -> sequences, so that every cut of a window sees the same data.

A corpus is cut into sequences, which `bench.workload.data.deal` deals to updates, a few held out for the validation
loss.
"""

# N = tokens of the corpus, n = sequences per epoch, G = global batch [sequences], T = seq_len [tokens]

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.errors import BenchError
from bench.workload.data.corpus import Corpus
from bench.workload.data.deal import Deal

Rows = Literal["ragged", "padded", "packed"]
Sequence1D = NDArray[np.int64]
"""(<= T+1,) token ids; one that is no target, as in a prompt, is given as its complement ~id, which is negative."""


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
        self._seq_len = seq_len
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
        if not self._starts.size:
            raise BenchError(
                f"{corpus.source} has {self._tokens.size} tokens, too few for one sequence with rows: {rows}, "
                f"seq_len = {seq_len}. Use more text or a shorter seq_len."
            )
        cut = f"{corpus.source}, with rows: {rows}, seq_len = {seq_len},"
        self._deal = Deal(int(self._starts.size), seed, sequences_per_epoch, tail, cut)
        self._held_out, self._trained_on = self._deal.held_out, self._deal.trained_on
        self.num_sequences: int = self._deal.num_sequences
        if not self._has_target():
            raise BenchError(
                f"{corpus.source} has nothing to predict with rows: {rows}, seq_len = {seq_len}: prompts fill every "
                "sequence. Use a longer seq_len."
            )
        self._full_row_starts: NDArray[np.int64] | None = None

    def window(self, update: int, global_batch_size: int, positions: Sequence[int] | None = None) -> list[Sequence1D]:
        """Give the sequences of one update over all ranks, each (<= T+1,) int64 [tokens].

        Exactly G sequences, fewer only at the end of an epoch of a finite source; with `positions`, only those at
        these places of the window, and no other is read. Any update may be asked for at any time.

        Raises:
            BenchError: An epoch holds no whole window and `tail` is `drop`.
        """
        indices = self._deal.numbers(update, global_batch_size)
        return [self._sequence(index) for index in (indices if positions is None else indices[list(positions)])]

    def window_size(self, update: int, global_batch_size: int) -> int:
        """Count the sequences of one update over all ranks without reading them [sequences]."""
        return self._deal.window_size(update, global_batch_size)

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
        return self._deal.updates_per_epoch(global_batch_size)

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
