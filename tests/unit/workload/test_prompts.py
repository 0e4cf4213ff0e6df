"""Prompts are fed and not predicted: masks and counts are what a plain recount of the documents gives."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from bench.errors import BenchError
from bench.workload.data.corpus import Corpus
from bench.workload.data.sequences import SequenceSource
from bench.workload.micro_batches import IGNORED_TARGET, MicroBatch
from tests.unit.workload.cut import cut_window

RowsName = Literal["ragged", "padded", "packed"]
Token = tuple[int, bool]
"""An id, and whether it is a target."""

documents_of = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=40)


def stream_of(documents: list[tuple[int, int]]) -> list[list[Token]]:
    """Write documents of so many prompt and completion tokens out; every id occurs once, id 99 among them."""
    ids = iter(range(sum(map(sum, documents))))
    return [[(next(ids), number >= prompt) for number in range(prompt + body)] for prompt, body in documents]


def corpus_of(documents: list[list[Token]]) -> Corpus:
    tokens = [token for document in documents for token in document]
    offsets = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    ids = np.array([id_ for id_, _ in tokens], dtype=np.uint16)
    return Corpus(ids, offsets, "0" * 64, ids.size, "test", True, np.array([not is_target for _, is_target in tokens]))


def sequences_of(documents: list[list[Token]], rows: RowsName, seq_len: int) -> list[list[Token]]:
    """Cut documents into sequences, one by one."""
    if rows == "packed":
        stream = [token for document in documents for token in document]
        return [stream[at : at + seq_len + 1] for at in range(0, len(stream) - seq_len, seq_len)]
    return [document[: seq_len + 1] for document in documents if len(document) >= 2]


def valid_pairs(sequences: list[list[Token]]) -> Counter[tuple[int, int]]:
    """List what is to be predicted: each target with the token before it."""
    return Counter((one[0], two[0]) for sequence in sequences for one, two in pairwise(sequence) if two[1])


def fed_pairs(micro_batch: MicroBatch) -> list[tuple[int, int]]:
    valid = micro_batch.targets != IGNORED_TARGET
    return list(zip(micro_batch.inputs[valid].tolist(), micro_batch.targets[valid].tolist(), strict=True))


@given(
    documents=documents_of,
    rows=st.sampled_from(["ragged", "padded", "packed"]),
    seq_len=st.integers(1, 12),
    micro_batch_size=st.integers(1, 5),
    world_size=st.integers(1, 3),
    epoch=st.integers(0, 2),
)
def test_masks_and_counts_are_those_of_a_plain_recount(
    documents: list[tuple[int, int]],
    rows: RowsName,
    seq_len: int,
    micro_batch_size: int,
    world_size: int,
    epoch: int,
) -> None:
    """For every kind of rows, cut and number of ranks: targets, inputs, valid targets, token slots and padding."""
    written = stream_of(documents)
    expected = sequences_of(written, rows, seq_len)
    assume(valid_pairs(expected))  # a source without a target is refused, see below
    assume(len(expected) < 100)  # of more, some are held out
    source = SequenceSource(corpus_of(written), rows, seq_len, seed=1)
    count = source.num_sequences
    window = source.window(epoch, count)  # a whole epoch
    per_rank = [
        cut_window(window, micro_batch_size, world_size, rank, rows, seq_len, source.has_prompts)
        for rank in range(world_size)
    ]
    fed = [micro_batch for mine in per_rank for micro_batch in mine]
    assert sum((Counter(fed_pairs(one)) for one in fed), Counter()) == valid_pairs(expected)
    assert sum(one.valid_targets for one in fed) == sum(one.unit_sum for one in fed) == valid_pairs(expected).total()
    inputs = sorted(id_ for sequence in expected for id_, _ in sequence[:-1])
    slots = Counter(id_ for one in fed for id_ in one.inputs.flatten().tolist())
    padding = sum(one.padding_slots for one in fed)
    slots[0] -= padding  # padding is fed as id 0
    assert sorted(slots.elements()) == inputs
    for one in fed:
        assert one.valid_targets == len(fed_pairs(one))
        assert one.token_slots == one.inputs.numel() == one.targets.numel()
        assert ((one.targets >= 0) | (one.targets == IGNORED_TARGET)).all()
    assert sum(one.token_slots for one in fed) == len(inputs) + padding
    if rows == "packed":
        assert padding == 0


@pytest.mark.parametrize("rows", ["ragged", "padded"])
def test_completion_of_n_tokens_after_a_prompt_has_n_valid_targets(rows: RowsName) -> None:
    """The last token of the prompt predicts the first of the completion; without a prompt nothing does."""
    for prompt, completion, valid in ((4, 3, 3), (1, 3, 3), (0, 3, 2)):
        source = SequenceSource(corpus_of(stream_of([(prompt, completion)])), rows, 8, seed=0)
        (micro_batch,) = cut_window(source.window(0, 1), 1, 1, 0, rows, 8, True)
        assert micro_batch.valid_targets == valid


def test_sequence_that_is_all_prompt_is_fed_and_counts_nothing() -> None:
    """It is one of the window's sequences, in a micro-batch of its own too."""
    source = SequenceSource(corpus_of(stream_of([(6, 2), (1, 3)])), "padded", 4, seed=0)
    cut = cut_window(source.window(0, 2), 1, 1, 0, "padded", 4, True)
    counts = sorted((one.sequences, one.valid_targets, one.token_slots, one.padding_slots) for one in cut)
    assert counts == [(1, 0, 4, 0), (1, 3, 4, 1)]
    silent = next(one for one in cut if not one.valid_targets)
    assert torch.equal(silent.inputs, torch.tensor([[0, 1, 2, 3]]))
    assert silent.unit_sum == 0


def test_source_without_any_target_is_refused() -> None:
    """Every window would be empty; the way out is named."""
    with pytest.raises(BenchError, match=r"nothing to predict with rows: padded, seq_len = 4: .* Use a longer seq_len"):
        SequenceSource(corpus_of(stream_of([(6, 2), (5, 1)])), "padded", 4, seed=0)


@pytest.mark.parametrize("rows", ["ragged", "padded", "packed"])
def test_full_rows_are_all_valid(rows: RowsName) -> None:
    """The memory window is the largest there can be, prompts or not."""
    source = SequenceSource(corpus_of(stream_of([(3, 2)] * 20)), rows, 8, seed=0)
    (micro_batch,) = cut_window(source.full_rows(range(3)), 3, 1, 0, rows, 8, True)
    assert micro_batch.valid_targets == micro_batch.token_slots == 24
    assert micro_batch.padding_slots == 0


def test_held_out_sequences_keep_their_prompts() -> None:
    """The validation loss is that of completions."""
    source = SequenceSource(corpus_of(stream_of([(3, 2)] * 300)), "ragged", 8, seed=0)
    assert [(row < 0).tolist() for row in source.held_out()] == [[True, True, True, False, False]] * 3


@given(documents=documents_of, rows=st.sampled_from(["ragged", "padded", "packed"]), seq_len=st.integers(1, 12))
def test_lengths_are_those_of_a_plain_recount(documents: list[tuple[int, int]], rows: RowsName, seq_len: int) -> None:
    """The least length that half, or 95 %, of the sequences do not exceed."""
    written = stream_of(documents)
    expected = sequences_of(written, rows, seq_len)
    if not valid_pairs(expected):
        return
    source = SequenceSource(corpus_of(written), rows, seq_len, seed=1)
    lengths = sorted(len(sequence) - 1 for sequence in expected)
    assert sorted(source.lengths().tolist()) == lengths
    at_most = {share: [sum(other <= one for other in lengths) / len(lengths) for one in lengths] for share in (50, 95)}
    assert source.length_percentiles() == {
        f"sequence_tokens_p{share}": next(
            one for one, so_many in zip(lengths, at_most[share], strict=True) if so_many >= share / 100
        )
        for share in (50, 95)
    }
