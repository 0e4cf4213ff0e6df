"""Samples of the user's own data set: dealt like sequences, collated into batches, refused in words."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import BenchError
from bench.sweep.fields import DataSpec
from bench.workload.batch_loss import CrossEntropyOfLabels
from bench.workload.micro_batches import own_chunks
from bench.workload.samples import LOOKED_AT, SampleLayout, SampleSource, make_collate, make_samples


def samples(count: int, width: Any = lambda number: 2) -> list[dict[str, Any]]:
    return [
        {"input_ids": torch.full((width(number),), number), "labels": torch.tensor(number % 3)}
        for number in range(count)
    ]


def source(count: int = 20, width: Any = lambda number: 2, **data: Any) -> SampleSource:
    return SampleSource(samples(count, width), DataSpec(factory="m:f", **data), 1, "it")


def numbers(found: list[dict[str, Any]]) -> list[int]:
    return [int(sample["input_ids"][0]) for sample in found]


@given(micro=st.integers(1, 5), world=st.integers(1, 3), batch=st.integers(1, 30), update=st.integers(0, 5))
def test_an_update_takes_the_same_samples_whatever_the_cut(micro: int, world: int, batch: int, update: int) -> None:
    """And each of them once."""
    its = source(23)
    whole = numbers(its.window(update, batch))
    chunks = [list(chunk) for rank in range(world) for chunk in own_chunks(batch, micro, world, rank)]
    cut = [number for chunk in chunks for number in numbers(its.window(update, batch, chunk))]
    assert sorted(cut) == sorted(whole)
    assert len(whole) == batch


def test_samples_held_out_are_trained_on_in_no_update() -> None:
    its = source(300)
    held = set(numbers(its.held_out()))
    assert len(held) == 3
    assert not held & {number for update in range(30) for number in numbers(its.window(update, 10))}


def test_full_window_repeats_the_largest_sample_looked_at() -> None:
    its = source(20, lambda number: 9 if number == 7 else 2)
    assert numbers(its.full_rows(range(3))) == [7, 7, 7]
    assert (its.is_all_looked_at, its.is_one_size) == (True, False)
    assert source(LOOKED_AT * 3, lambda number: number % 5 + 1).is_all_looked_at is False
    assert source(LOOKED_AT * 3).is_one_size


def test_hash_is_that_of_the_samples() -> None:
    assert source(20).content_hash == source(20).content_hash
    assert source(20).content_hash != source(21).content_hash
    assert source(20).content_hash != source(20, lambda number: 3).content_hash


def test_epoch_ends_where_asked() -> None:
    its = source(20, sequences_per_epoch=7)
    assert [its.window_size(update, 4) for update in range(3)] == [4, 3, 4]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (iter([1]), "returned list_iterator. Expected: a sequence of samples"),
        ({"a": 1}, "returned dict. Expected: a sequence"),
        (None, "returned NoneType"),
        ([], "returned no sample"),
        ([(1, 2)], "sample 0 is tuple. Expected: a dict of tensors"),
        ([{}], "sample 0 is dict without a key"),
    ],
)
def test_what_is_no_data_set_is_refused_with_what_was_expected(made: Any, words: str) -> None:
    with pytest.raises(BenchError, match=f"it:? {words}"):
        SampleSource(made, DataSpec(factory="m:f"), 1, "it")


def layout(collate: Any) -> SampleLayout:
    return SampleLayout(collate, CrossEntropyOfLabels())


def test_batch_counts_samples_units_and_ids() -> None:
    first, second = layout(make_collate(DataSpec()))([samples(3), samples(1)], False)
    assert (first.sequences, first.token_slots, first.unit_sum, first.valid_targets) == (3, 6, 3.0, 0)
    assert (second.sequences, second.tensors["labels"].shape) == (1, (1,))


@pytest.mark.parametrize(
    ("collate", "words"),
    [
        (lambda found: torch.zeros(2), "returned Tensor. Expected: a dict of tensors"),
        (lambda found: {"labels": [1, 2]}, "returned dict of list"),
        (lambda found: {"labels": torch.zeros(3, dtype=torch.int64)}, "of 2 samples came {'labels': \\(3,\\)}"),
    ],
)
def test_collated_batch_that_is_none_is_refused(collate: Any, words: str) -> None:
    with pytest.raises(BenchError, match=words):
        layout(collate)([samples(2)], False)


def test_unequal_samples_need_a_collate() -> None:
    with pytest.raises(BenchError, match=r"samples cannot be stacked.*Name a data.collate that pads them"):
        layout(make_collate(DataSpec()))([samples(2, lambda number: number + 1)], False)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"data_{tmp_path.name.replace('-', '_')}"
    text = (
        "import torch\ndef f(seq_len, seed, count=4):\n    return [{'x': torch.rand(seq_len)} for _ in range(count)]\n"
    )
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


def test_function_gets_length_seed_and_arguments_and_its_draws_are_seeded(module: str) -> None:
    """Every rank makes the same samples."""
    data = DataSpec(factory=f"{module}:f", args={"count": 6})
    first, again, other = (make_samples(data, 5, seed) for seed in (1, 1, 2))
    assert first.content_hash == again.content_hash != other.content_hash
    assert (first.num_sequences, first.window(0, 1)[0]["x"].shape) == (6, (5,))
