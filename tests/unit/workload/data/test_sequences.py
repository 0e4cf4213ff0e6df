"""Data as a pure function of seed, global batch and update."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import BenchError
from bench.workload.data.corpus import Corpus
from bench.workload.data.sequences import SequenceSource


def corpus_of(lengths: list[int], has_document_borders: bool = True) -> Corpus:
    """Make a corpus whose tokens are 0, 1, 2, ..., so that every sequence is known by its first token."""
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    tokens = np.arange(offsets[-1], dtype=np.uint16)
    return Corpus(tokens, offsets, "0" * 64, max(1, tokens.size), "test corpus", has_document_borders)


def ragged(
    count: int, sequences_per_epoch: int | None = None, tail: Literal["keep", "drop"] = "keep", seed: int = 3
) -> SequenceSource:
    return SequenceSource(corpus_of([2] * count), "ragged", 8, seed, sequences_per_epoch, tail)


def firsts(window: list[np.ndarray]) -> list[int]:
    return [int(sequence[0]) for sequence in window]


@given(
    count=st.integers(1, 12),
    global_batch_size=st.integers(1, 30),
    finite=st.booleans(),
    updates=st.lists(st.integers(0, 40), min_size=1, max_size=8),
)
def test_windows_do_not_depend_on_the_order_of_asking(
    count: int, global_batch_size: int, finite: bool, updates: list[int]
) -> None:
    """Any update gives the same sequences first, last, twice, or alone in a fresh process."""
    shared = ragged(count, count if finite else None)
    for update in updates:
        alone = ragged(count, count if finite else None).window(update, global_batch_size)
        assert firsts(shared.window(update, global_batch_size)) == firsts(alone)


@given(count=st.integers(1, 12), global_batch_size=st.integers(1, 30), epochs=st.integers(1, 3))
def test_endless_windows_are_full_and_visit_each_sequence_once_an_epoch(
    count: int, global_batch_size: int, epochs: int
) -> None:
    """Concatenated windows are concatenated permutations."""
    source = ragged(count)
    updates = -(-count * epochs // global_batch_size)
    windows = [source.window(update, global_batch_size) for update in range(updates)]
    assert {len(window) for window in windows} == {global_batch_size}
    seen = [first for window in windows for first in firsts(window)]
    for epoch in range(epochs):
        assert sorted(seen[epoch * count : (epoch + 1) * count]) == list(range(0, 2 * count, 2))


@given(count=st.integers(1, 12), extra=st.integers(0, 5), global_batch_size=st.integers(1, 30), epoch=st.integers(0, 3))
def test_finite_epoch_visits_each_sequence_once(count: int, extra: int, global_batch_size: int, epoch: int) -> None:
    """Every epoch ends with its last sequence, in a partial window where it must."""
    source = ragged(count + extra, sequences_per_epoch=count)
    per_epoch = source.updates_per_epoch(global_batch_size)
    assert per_epoch == -(-count // global_batch_size)
    windows = [source.window(epoch * per_epoch + i, global_batch_size) for i in range(per_epoch)]
    assert Counter(first for window in windows for first in firsts(window)) == Counter(range(0, 2 * count, 2))
    assert all(len(window) == global_batch_size for window in windows[:-1])


def test_nineteen_sequences_in_windows_of_twelve() -> None:
    """12, 7, 12, 7, and with the tail dropped 12, 12."""
    assert [len(ragged(30, 19).window(update, 12)) for update in range(4)] == [12, 7, 12, 7]
    dropped = ragged(30, 19, "drop")
    assert [len(dropped.window(update, 12)) for update in range(3)] == [12, 12, 12]
    assert dropped.updates_per_epoch(12) == 1
    assert firsts(dropped.window(1, 12)) == firsts(ragged(30, 19).window(2, 12))


def test_the_larger_global_batch_reads_the_same_order() -> None:
    """Two updates of 6 take what one update of 12 takes."""
    source = ragged(19)
    assert firsts(source.window(1, 12)) == firsts(source.window(2, 6)) + firsts(source.window(3, 6))


def test_seed_and_epoch_shuffle() -> None:
    """Another seed or epoch gives another order of the same sequences."""
    orders = [firsts(ragged(50, 50, seed=seed).window(epoch, 50)) for seed in (1, 2) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
    assert len({tuple(sorted(order)) for order in orders}) == 1


def test_packed_rows_share_their_border_token() -> None:
    """Each row's last target is the next row's first input, so that every token but the first is predicted once."""
    source = SequenceSource(corpus_of([4, 9, 1]), "packed", 3, seed=0)
    rows = sorted(row.tolist() for row in source.window(0, source.num_sequences))
    assert rows == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9], [9, 10, 11, 12]]


@pytest.mark.parametrize("rows", ["ragged", "padded"])
def test_a_document_is_a_sequence_cut_to_its_row(rows: Literal["ragged", "padded"]) -> None:
    """At most seq_len + 1 tokens are taken; a document of one token predicts nothing and is left out."""
    source = SequenceSource(corpus_of([2, 1, 6, 4]), rows, 3, seed=0)
    assert source.num_sequences == 3
    assert sorted(row.tolist() for row in source.window(0, 3)) == [[0, 1], [3, 4, 5, 6], [9, 10, 11, 12]]


@pytest.mark.parametrize("rows", ["ragged", "packed"])
def test_full_rows_are_full_whatever_the_rows(rows: Literal["ragged", "packed"]) -> None:
    """More rows than the corpus holds start again; a corpus shorter than a row is repeated to fill it."""
    source = SequenceSource(corpus_of([4, 5]), rows, 4, seed=0)
    assert [row.tolist() for row in source.full_rows(range(3))] == [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8], [0, 1, 2, 3, 4]]
    short = SequenceSource(corpus_of([3]), "ragged", 4, seed=0)
    assert [row.tolist() for row in short.full_rows(range(2))] == [[0, 1, 2, 0, 1]] * 2


def test_sequences_are_int64() -> None:
    """The embedding takes no uint16."""
    source = SequenceSource(corpus_of([9]), "packed", 4, seed=0)
    assert {row.dtype for row in [*source.window(0, 1), *source.full_rows(range(1))]} == {np.dtype(np.int64)}


def test_stream_without_borders_is_refused_for_documents() -> None:
    """Ragged rows of a border-less stream would be one giant document."""
    stream = corpus_of([50], has_document_borders=False)
    assert SequenceSource(stream, "packed", 8, seed=0).num_sequences == 6
    with pytest.raises(BenchError, match=r"data\.rows = ragged .* Use rows: packed"):
        SequenceSource(stream, "ragged", 8, seed=0)


def test_too_little_text_is_refused() -> None:
    """No row, and fewer sequences than asked for, name the numbers."""
    with pytest.raises(BenchError, match="8 tokens, too few for one sequence with rows: packed, seq_len = 8"):
        SequenceSource(corpus_of([8]), "packed", 8, seed=0)
    with pytest.raises(BenchError, match="Use at most 5"):
        ragged(5, sequences_per_epoch=6)


def test_dropped_tail_that_is_everything_is_refused() -> None:
    """An epoch without a single whole window would give no update at all."""
    with pytest.raises(BenchError, match=r"sequences_per_epoch = 5 never fills .* global_batch_size = 6 .*tail: drop"):
        ragged(5, 5, "drop").window(0, 6)


@given(
    count=st.integers(90, 700), update=st.integers(0, 300), global_batch_size=st.integers(1, 40), finite=st.booleans()
)
def test_held_out_sequences_are_in_no_update(count: int, update: int, global_batch_size: int, finite: bool) -> None:
    """One in a hundred, at most 64, evenly spread; an epoch is all the others."""
    source = ragged(count)
    held = firsts(source.held_out())
    assert len(held) == min(64, count // 100)
    assert source.num_sequences == count - len(held)
    assert not set(held) & set(firsts(source.window(update, global_batch_size)))
    assert sorted(held + firsts(source.window(0, source.num_sequences))) == list(range(0, 2 * count, 2))
    shorter = ragged(count, sequences_per_epoch=count // 2) if finite else source
    assert firsts(shorter.held_out()) == held


def test_held_out_sequences_are_spread_and_bounded() -> None:
    """A large corpus holds out 64, none of them beside another, whatever the seed."""
    held = firsts(ragged(20_000, seed=1).held_out())
    assert len(held) == 64
    assert held == firsts(ragged(20_000, seed=2).held_out())
    assert min(np.diff(held)) == 624  # 312 sequences of two tokens
    assert ragged(99).held_out() == []


def test_full_rows_predict_no_held_out_token() -> None:
    """The memory pass trains on them, so they keep away from what is held out."""
    source = SequenceSource(corpus_of([300 * 4 + 1]), "packed", 4, seed=0)
    unseen = {int(token) for sequence in source.held_out() for token in sequence[1:]}
    seen = {int(token) for row in source.full_rows(range(400)) for token in row[1:]}
    assert len(unseen) == 3 * 4
    assert not unseen & seen
    assert len(seen) == 297 * 4
    documents = SequenceSource(corpus_of([5, 9, 2] * 100), "ragged", 6, seed=0)
    unseen = {int(token) for sequence in documents.held_out() for token in sequence[1:]}
    assert unseen
    assert not unseen & {int(token) for row in documents.full_rows(range(500)) for token in row[1:]}


@given(
    count=st.integers(1, 12),
    global_batch_size=st.integers(1, 30),
    update=st.integers(0, 20),
    finite=st.booleans(),
    start=st.integers(0, 30),
    length=st.integers(0, 30),
)
def test_part_of_a_window_is_read_without_the_rest(
    count: int, global_batch_size: int, update: int, finite: bool, start: int, length: int
) -> None:
    """Streamed windows read piece by piece and know the size without reading."""
    source = ragged(count, count if finite else None)
    whole = source.window(update, global_batch_size)
    assert source.window_size(update, global_batch_size) == len(whole)
    positions = range(len(whole))[start : start + length]
    assert firsts(source.window(update, global_batch_size, positions)) == firsts(whole)[start : start + length]


def test_full_rows_may_start_anywhere() -> None:
    """Rows 2 and 3 of five are what five would have given there."""
    source = SequenceSource(corpus_of([20]), "packed", 4, seed=0)
    rows = [row.tolist() for row in source.full_rows(range(7))]
    assert [row.tolist() for row in source.full_rows(range(5, 7))] == rows[5:7]
