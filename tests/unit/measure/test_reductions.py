"""Gradient reductions are counted at the dispatcher; on several ranks in tests/integration/test_ddp.py."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench.measure.reductions import Reductions

ALLREDUCE: Any = type("Op", (), {"namespace": "c10d", "_opname": "allreduce_", "__call__": lambda *a, **k: None})()
GATHER: Any = type("Op", (), {"namespace": "c10d", "_opname": "allgather_", "__call__": lambda *a, **k: None})()
NOTHING: Any = None


def reduce(counter: Reductions, times: int, dtype: torch.dtype = torch.float32, op: Any = ALLREDUCE) -> None:
    for _ in range(times):
        counter.__torch_dispatch__(op, (), ([torch.ones(2, dtype=dtype)],))


@pytest.fixture
def counter() -> Reductions:
    counter = Reductions()
    counter._is_active = True
    return counter


def test_reductions_are_counted_per_update_and_per_micro_step(counter: Reductions) -> None:
    """Two micro-steps of three buckets, then an update whose rank had no data."""
    counter.window_begin(NOTHING)
    for _ in range(2):
        reduce(counter, 3)
        counter.micro_step_end()
    counter.update_end(NOTHING)
    counter.window_begin(NOTHING)
    reduce(counter, 3)
    counter.update_end(NOTHING)
    assert (counter.per_update, counter.most_per_micro_step) == ([6, 3], 3)


def test_other_collectives_are_no_gradient_reductions(counter: Reductions) -> None:
    """Sums of integers and gathers are other business."""
    counter.window_begin(NOTHING)
    reduce(counter, 4, torch.int64)
    reduce(counter, 4, op=GATHER)
    counter.micro_step_end()
    counter.update_end(NOTHING)
    assert (counter.per_update, counter.most_per_micro_step) == ([0], 0)


def test_updates_outside_the_pass_are_not_recorded() -> None:
    """The observer stays in the loop all the time; only what is watched counts."""
    counter = Reductions()
    counter.window_begin(NOTHING)
    counter.update_end(NOTHING)
    assert counter.per_update == []
    with counter:
        torch.ones(2).sum()
        counter.window_begin(NOTHING)
        counter.update_end(NOTHING)
    assert counter.per_update == [0]
