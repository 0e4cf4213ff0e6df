"""A window is the same whatever it is cut into."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.workload.micro_batches import IGNORED_TARGET, MicroBatch, own_chunks
from tests.unit.workload.cut import cut_window

RowsName = Literal["ragged", "padded", "packed"]
SEQ_LEN = 6


def sequence(first: int, tokens: int) -> NDArray[np.int64]:
    return np.arange(first, first + tokens, dtype=np.int64)


def window_of(lengths: list[int]) -> list[NDArray[np.int64]]:
    return [sequence(100 * index + 1, tokens) for index, tokens in enumerate(lengths)]


def pairs(micro_batch: MicroBatch) -> list[tuple[int, int]]:
    """List the (input, target) pairs that count."""
    valid = micro_batch.targets != IGNORED_TARGET
    return list(zip(micro_batch.inputs[valid].tolist(), micro_batch.targets[valid].tolist(), strict=True))


windows = st.lists(st.integers(2, SEQ_LEN + 1), max_size=12)
cuts = {"micro_batch_size": st.integers(1, 5), "world_size": st.integers(1, 5)}


@given(lengths=windows, rows=st.sampled_from(["ragged", "padded"]), **cuts)
def test_all_ranks_together_hold_the_window_whatever_the_cut(
    lengths: list[int], rows: RowsName, micro_batch_size: int, world_size: int
) -> None:
    """Every prediction of the window occurs exactly once, and the counts say so exactly."""
    window = window_of(lengths)
    per_rank = [cut_window(window, micro_batch_size, world_size, rank, rows, SEQ_LEN) for rank in range(world_size)]
    everything = [micro_batch for micro_batches in per_rank for micro_batch in micro_batches]
    expected = Counter((int(a), int(b)) for one in window for a, b in pairwise(one))
    assert Counter(pair for micro_batch in everything for pair in pairs(micro_batch)) == expected
    assert sum(micro_batch.sequences for micro_batch in everything) == len(lengths)
    assert sum(micro_batch.valid_targets for micro_batch in everything) == sum(lengths) - len(lengths)
    for micro_batch in everything:
        assert micro_batch.inputs.dtype == micro_batch.targets.dtype == torch.int64
        assert micro_batch.inputs.shape == micro_batch.targets.shape
        assert micro_batch.token_slots == micro_batch.inputs.numel() >= 1
        assert micro_batch.valid_targets == len(pairs(micro_batch))
        assert micro_batch.unit_sum == micro_batch.valid_targets


@given(lengths=windows, **cuts)
def test_ranks_differ_by_one_micro_batch_at_most(lengths: list[int], micro_batch_size: int, world_size: int) -> None:
    """The earlier ranks have the more; only the last chunk of the window is short."""
    chunks = [own_chunks(len(lengths), micro_batch_size, world_size, rank) for rank in range(world_size)]
    counts = [len(mine) for mine in chunks]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] - counts[-1] <= 1
    sizes = [len(chunk) for _, chunk in sorted((chunk.start, chunk) for mine in chunks for chunk in mine)]
    assert all(size == micro_batch_size for size in sizes[:-1])
    assert sum(sizes) == len(lengths)


def test_chunk_k_goes_to_rank_k_mod_world_size() -> None:
    """Seven sequences in twos over two ranks: chunks 0 and 2 here, 1 and the short 3 there."""
    window = window_of([3] * 7)
    mine = [cut_window(window, 2, 2, rank, "ragged", SEQ_LEN) for rank in (0, 1)]
    firsts = [[micro_batch.inputs[:, 0].tolist() for micro_batch in micro_batches] for micro_batches in mine]
    assert firsts == [[[1, 101], [401, 501]], [[201, 301], [601]]]


@pytest.mark.parametrize(("rows", "width"), [("ragged", 3), ("padded", SEQ_LEN), ("packed", SEQ_LEN)])
def test_rows_are_filled_up_as_asked(rows: RowsName, width: int) -> None:
    """Ragged pads to its own longest row, the others to seq_len; padding comes last and is ignored."""
    (micro_batch,) = cut_window([sequence(5, 4), sequence(8, 2)], 2, 1, 0, rows, SEQ_LEN)
    padding = width - 3
    assert micro_batch.inputs.tolist() == [[5, 6, 7] + [0] * padding, [8, 0, 0] + [0] * padding]
    assert micro_batch.targets.tolist() == [[6, 7, 8] + [-100] * padding, [9, -100, -100] + [-100] * padding]
    assert micro_batch.token_slots == 2 * width
    assert micro_batch.valid_targets == 4


def test_full_rows_have_no_padding() -> None:
    """Every slot is a valid target, in contiguous memory that can be pinned and copied."""
    (micro_batch,) = cut_window([sequence(1, SEQ_LEN + 1)] * 3, 3, 1, 0, "packed", SEQ_LEN)
    assert micro_batch.valid_targets == micro_batch.token_slots == 3 * SEQ_LEN
    assert micro_batch.inputs.is_contiguous()
    assert micro_batch.targets.is_contiguous()


def test_micro_batches_do_not_share_memory_with_the_window() -> None:
    """A corpus that is memory-mapped read-only must not leak into tensors."""
    window = [sequence(1, 4)]
    (micro_batch,) = cut_window(window, 1, 1, 0, "ragged", SEQ_LEN)
    micro_batch.inputs.zero_()
    assert window[0].tolist() == [1, 2, 3, 4]


def test_too_long_a_sequence_is_our_own_mistake() -> None:
    """It would silently widen padded rows."""
    with pytest.raises(AssertionError, match="does not fit"):
        cut_window([sequence(0, SEQ_LEN + 2)], 1, 1, 0, "ragged", SEQ_LEN)


def test_moving_keeps_the_counts() -> None:
    """Only the tensors move."""
    (micro_batch,) = cut_window([sequence(1, 4)], 1, 1, 0, "ragged", SEQ_LEN)
    moved = micro_batch.to("meta")
    assert moved.inputs.device.type == moved.targets.device.type == "meta"
    assert (moved.sequences, moved.valid_targets, moved.token_slots, moved.unit_sum) == (1, 3, 3, 3.0)


def test_moving_to_where_it_is_gives_back_the_same() -> None:
    """On a CPU nothing is made anew for each micro-batch; elsewhere it is."""
    (moved,) = cut_window(window_of([4]), 1, 1, 0, "ragged", 8)
    assert moved.to(torch.device("cpu")) is moved
    assert moved.to(torch.device("meta")).inputs.device.type == "meta"
