"""Windows of prompts and completions count the same however they are cut, buffered or streamed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.rank.feed import Feed, count_micro_batch
from bench.rank.quality import validation_loss
from bench.sweep.fields import TrialConfig
from bench.workload.data.corpus import Corpus
from bench.workload.data.sequences import SequenceSource
from tests.small_launch import build, columns_of
from tests.unit.rank.test_feed import Alone

SEQ_LEN = 6
DOCUMENTS = [(2, 3), (0, 9), (7, 2), (1, 1), (4, 4)]
"""Tokens of a prompt and of its completion; the third prompt fills its row."""


def corpus(documents: list[tuple[int, int]]) -> Corpus:
    offsets = np.cumsum([0, *map(sum, documents)], dtype=np.int64)
    is_prompt = [number < prompt for prompt, body in documents for number in range(prompt + body)]
    return Corpus(np.arange(offsets[-1], dtype=np.uint16) % 257, offsets, "0" * 64, 257, "t", True, np.array(is_prompt))


def feed(rows: Any, mode: str, world: int, rank: int, micro: int, total: int, epoch: int | None) -> Feed:
    data = {"rows": rows, "sequences_per_epoch": epoch}
    sizes = {"global_batch_size": total, "micro_batch_size": micro, "world_size": world}
    config = TrialConfig.model_validate(
        {"device": "cpu", "data": data, "seq_len": SEQ_LEN, "window_mode": mode, **sizes}
    )
    source = SequenceSource(corpus(DOCUMENTS * 12), rows, SEQ_LEN, 1, epoch)
    return Feed(source, config, Alone(rank, world))


def read(feeds: list[Feed], updates: int) -> tuple[list[tuple[int, int, float]], list[dict[int, int]]]:
    """Read windows on all ranks: sequences, valid tokens and units of each, and the padding that was noted."""
    counted = []
    for _ in range(updates):
        parts = [count_micro_batch(batch) for one in feeds for batch, _ in one.next_window() if batch.sequences]
        counted.append(
            (
                sum(part.sequences for part in parts),
                sum(part.valid_tokens for part in parts),
                sum(part.units for part in parts),
            )
        )
    return counted, [one.padding_slots for one in feeds]


@settings(max_examples=40)
@given(
    rows=st.sampled_from(["ragged", "padded", "packed"]),
    mode=st.sampled_from(["buffered", "streamed"]),
    world=st.integers(1, 3),
    micro=st.integers(1, 3),
    steps=st.integers(1, 3),
    epoch=st.none() | st.integers(1, 40),
)
def test_windows_count_the_same_over_cuts(
    rows: str, mode: str, world: int, micro: int, steps: int, epoch: int | None
) -> None:
    """Partial windows, sequences without a target and the window of full rows included."""
    total = world * micro * steps
    whole = feed(rows, "buffered", 1, 0, total, total, epoch)
    cut = [feed(rows, mode, world, rank, micro, total, epoch) for rank in range(world)]
    for one in (whole, *cut):
        one.want_full_rows()
    expected, (padding,) = read([whole], 4)
    found, paddings = read(cut, 4)
    assert found == expected
    assert expected[0] == (total, total * SEQ_LEN, total * SEQ_LEN), "the memory window is all valid"
    if rows != "ragged":
        assert [sum(one[update] for one in paddings) for update in range(4)] == [padding[update] for update in range(4)]


def test_counts_of_what_was_fed_are_in_the_row(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding is told from prompts, which are fed and no padding."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "a.jsonl").write_text('{"prompt": "abcdef", "completion": "ghi"}\n' * 40)
    data = {"jsonl": str(tmp_path / "a.jsonl"), "rows": "padded"}
    bench = build(micro_batch_size=2, accumulation_steps=2, data=data, seq_len=16)
    row = columns_of(bench)
    assert (row["sequences"], row["token_slots"], row["valid_tokens"], row["padding_slots"]) == (4, 64, 16, 28)
    assert (row["sequence_tokens_p50"], row["sequence_tokens_p95"]) == (9, 9)
    assert row["updates_empty"] == 0


def test_validation_of_prompts_alone_is_no_number(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no held-out sequence has a target there is no loss per target, and no launch fails of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rows = ['{"prompt": "%s", "completion": "b"}' % ("a" * (8 if number == 50 else 1)) for number in range(100)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    data = {"jsonl": str(tmp_path / "a.jsonl"), "rows": "ragged"}
    bench = build(data=data, seq_len=4)
    assert [(sequence < 0).all() for sequence in bench.source.held_out()] == [True]
    assert validation_loss(bench) is None
