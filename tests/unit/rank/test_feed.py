"""Windows for one rank: the same whatever the mode, and never more than needed on the host."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.loop import Agreed, WindowCounts
from bench.rank.feed import Feed
from bench.sweep.fields import TrialConfig
from bench.workload.data.corpus import Corpus
from bench.workload.data.sequences import SequenceSource


class Alone:
    """Be one of several ranks, of which the others say what the test says: nothing."""

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size
        self.begun: list[WindowCounts] = []

    def begin(self, counts: WindowCounts, more: bool = True) -> None:
        self.begun.append(counts)

    def finish(self) -> Agreed:
        others = [WindowCounts()] * self.world_size
        others[self.rank] = self.begun[-1]
        return Agreed(tuple(others), True)


def feed(mode: str, rank: int, world: int, micro: int, total: int, epoch: int | None) -> Feed:
    offsets = np.cumsum([0, *([3, 9, 5, 2] * 20)], dtype=np.int64)
    corpus = Corpus(np.arange(offsets[-1], dtype=np.uint16), offsets, "0" * 64, 500, "test", True)
    config = TrialConfig.model_validate(
        {
            "device": "cpu",
            "data": {"rows": "ragged", "sequences_per_epoch": epoch},
            "seq_len": 6,
            "global_batch_size": total,
            "micro_batch_size": micro,
            "world_size": world,
            "window_mode": mode,
        }
    )
    source = SequenceSource(corpus, "ragged", 6, 1, epoch)
    return Feed(source, config, Alone(rank, world))


def read(feed: Feed, updates: int) -> list[Any]:
    """Read windows to their ends: the inputs of each micro-batch and which was the last."""
    seen = []
    for _ in range(updates):
        window = feed.next_window()
        seen.append([(batch.inputs.tolist(), is_last) for batch, is_last in window])
    return seen


@settings(max_examples=40)
@given(
    world=st.integers(1, 3),
    micro=st.integers(1, 3),
    steps=st.integers(1, 4),
    epoch=st.none() | st.integers(1, 40),
    full_after=st.integers(0, 2),
)
def test_streamed_and_buffered_windows_hold_the_same_micro_batches(
    world: int, micro: int, steps: int, epoch: int | None, full_after: int
) -> None:
    """On every rank, partial windows and the window of full rows included; the last is known as such."""
    for rank in range(world):
        both = []
        for mode in ("buffered", "streamed"):
            made = feed(mode, rank, world, micro, micro * steps * world, epoch)
            windows = read(made, full_after)
            made.want_full_rows()
            both.append(windows + read(made, 3))
        assert both[0] == both[1]
        for window in both[0]:
            assert [is_last for _, is_last in window] == [False] * (len(window) - 1) + [True] * bool(window)


@pytest.mark.parametrize("mode", ["buffered", "streamed"])
def test_rank_without_a_chunk_gets_no_micro_batch(mode: Literal["buffered", "streamed"]) -> None:
    """5 sequences at 2 a micro-batch on 3 ranks are three chunks in the first window, and 2 then are one."""
    assert [len(read(feed(mode, rank, 3, 2, 6, 8), 2)[1]) for rank in range(3)] == [1, 0, 0]


@pytest.mark.parametrize("mode", ["buffered", "streamed"])
def test_rank_reads_no_sequence_of_another(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With eight ranks seven eighths of a window are theirs: reading them all would cost every rank the whole."""
    asked: list[int] = []
    sequence = SequenceSource._sequence

    def counted(source: SequenceSource, index: int) -> Any:
        asked.append(index)
        return sequence(source, index)

    monkeypatch.setattr(SequenceSource, "_sequence", counted)
    per_rank = []
    for rank in range(4):
        made = feed(mode, rank, 4, 2, 16, None)
        asked.clear()
        window = made.next_window()
        while mode == "buffered" and len(asked) < 4:  # the next window is cut with this one
            window = made.next_window()
        list(window)
        per_rank.append(list(asked))
    assert [len(indices) for indices in per_rank] == [4] * 4
    assert len({index for indices in per_rank for index in indices}) == 16


def test_waiting_for_data_is_timed_in_both_modes() -> None:
    """The time to cut micro-batches is not hidden in the time to compute."""
    for mode in ("buffered", "streamed"):
        made = feed(mode, 0, 1, 2, 8, None)
        made.wait_s = 0.0
        read(made, 3)
        assert made.wait_s > 0.0


def test_streamed_plan_says_what_is_known_before() -> None:
    """Nominal units, micro-steps and whether it is partial; counts come at the end."""
    made = feed("streamed", 0, 1, 2, 8, 10)
    first, second = made.next_window(), None
    assert (first.plan.nominal_units, first.plan.micro_steps, first.plan.is_partial) == (48.0, 4, False)
    list(first)
    assert first.settle().all_ranks.sequences == 8
    second = made.next_window()
    assert (second.plan.micro_steps, second.plan.is_partial) == (1, True)
    list(second)
    assert second.settle().all_ranks.sequences == 2


@pytest.mark.parametrize("mode", ["buffered", "streamed"])
def test_shortened_windows_hold_the_first_micro_steps_of_the_full_ones(mode: str) -> None:
    """From the next window on, also where that one was cut already; they are not partial, and may grow again."""
    full = read(feed(mode, 0, 1, 2, 8, None), 5)
    source = feed(mode, 0, 1, 2, 8, None)
    assert read(source, 1) == full[:1]
    source.shorten(2)
    shortened = [source.next_window() for _ in range(2)]
    assert [window.plan.is_partial for window in shortened] == [False, False]
    batches = [[batch.inputs.tolist() for batch, _ in window] for window in shortened]
    assert batches == [[inputs for inputs, _ in window[:2]] for window in full[1:3]]
    assert [window.settle().all_ranks.sequences for window in shortened] == [4, 4]
    source.shorten(3)
    assert [len(window) for window in read(source, 2)] == [3, 3]
