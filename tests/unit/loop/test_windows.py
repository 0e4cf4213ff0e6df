"""Windows: how they are grouped, what waits on the host, what they count."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from bench.loop import ReadAhead, SummedCrossEntropy, windows
from tests.loops import train
from tests.oracle import Batch, TinyLM, make_optimizer, random_batch

STREAMED: dict[str, Any] = {"window_mode": "streamed", "nominal_units": 10.0}
COUNT = SummedCrossEntropy().count


class Watched:
    """A stream that knows how many of its micro-batches are alive."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.alive = 0
        self.most_alive = 0
        self.made = 0

    def __iter__(self) -> Iterator[Batch]:
        for seed in range(self.total):
            batch = random_batch(1, 3, seed)
            self.made += 1
            self.alive += 1
            self.most_alive = max(self.most_alive, self.alive)
            weakref.finalize(batch[1], self._gone)
            yield batch
            del batch

    def _gone(self) -> None:
        self.alive -= 1


def test_streamed_window_holds_two_micro_batches_at_most() -> None:
    """The one that runs and the one read ahead, however long the window is; buffered ones hold two windows."""
    most = {}
    for name, options in (("streamed", STREAMED), ("buffered", {})):
        stream, model = Watched(24), TinyLM()
        train(model, stream, 12, make_optimizer("sgd", model), window_options=options)
        most[name] = stream.most_alive
    assert most == {"streamed": 2, "buffered": 24}


def test_read_ahead_reads_one_ahead() -> None:
    """Before the first item is taken one was read; it knows its end without being asked for more."""
    stream = Watched(3)
    ahead = ReadAhead(stream)
    assert stream.made == 1
    assert [ahead.has_next, next(ahead) is not None, stream.made] == [True, True, 2]
    assert [next(ahead) is not None, next(ahead) is not None, ahead.has_next] == [True, True, False]
    with pytest.raises(StopIteration):
        next(ahead)


def test_streamed_counts_come_with_the_result() -> None:
    """The plan of the result is whole: counts, partial, the same as buffered."""
    plans = {}
    for name, options in (("streamed", STREAMED), ("buffered", {})):
        model = TinyLM()
        data = [random_batch(2, 3, seed, 0.3) for seed in range(5)]
        results = train(model, data, 3, make_optimizer("sgd", model), window_options=options).results
        plans[name] = [(r.plan.update, r.plan.this_rank, r.plan.all_ranks, r.plan.is_partial) for r in results]
    assert plans["streamed"] == plans["buffered"]


def test_nominal_units_keep_fp16_sums_small() -> None:
    """Each loss is divided before its backward: at scale 65536 an undivided sum of 4096 tokens overflows fp16."""
    from bench.loop import Precision

    for nominal, result in ((4096.0, "applied"), (1.0, "skipped")):
        model = TinyLM(dtype=torch.float32)
        options = {"window_mode": "streamed", "nominal_units": nominal}
        trained = train(
            model,
            [random_batch(8, 256, seed) for seed in range(2)],
            2,
            make_optimizer("sgd", model),
            precision=Precision("fp16", "cpu"),
            window_options=options,
        )
        assert [r.result for r in trained.results] == [result]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window_mode": "streamed"}, "streamed windows need the units"),
        ({"window_mode": "streamed", "nominal_units": 0.0}, "streamed windows need the units"),
        ({"nominal_units": 5.0}, "buffered windows count them"),
        ({**STREAMED, "tail": "drop"}, "Use buffered"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    """At the call, before anything is read."""
    with pytest.raises(ValueError, match=message):
        windows([], 2, COUNT, **options)
    with pytest.raises(ValueError, match="accumulation_steps = 0"):
        windows([], 0, COUNT)


def test_streamed_window_must_be_run_before_the_next() -> None:
    """Its counts, and whether there is another window, are known only then."""
    stream = windows([random_batch(1, 1, 0)] * 4, 2, COUNT, **STREAMED)
    next(stream)
    with pytest.raises(RuntimeError, match="window 0 did not run"):
        next(stream)


def test_micro_batches_may_be_any_nesting_of_tensors() -> None:
    """Tuples, lists and dicts move to the device; what has no `to` stays as it is."""
    from bench.loop.window import to_device

    moved = to_device({"x": [torch.ones(1), (torch.ones(2), 3)], "name": "row"}, torch.device("meta"))
    assert moved["x"][0].device.type == moved["x"][1][0].device.type == "meta"
    assert (moved["x"][1][1], moved["name"]) == (3, "row")


def test_updates_are_numbered_from_where_training_stopped() -> None:
    """`first_update` goes into the plans."""
    assert [w.plan.update for w in windows([random_batch(1, 1, 0)] * 4, 2, COUNT, first_update=7)] == [7, 8]
