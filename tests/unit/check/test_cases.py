"""The cases cover every awkward shape of a window, on one rank and on two."""

from __future__ import annotations

import pytest

from bench.check.cases import CASES, MOST_SEQUENCES, Case, planned_windows
from bench.check.oracle import IGNORED, units_of


def shapes(case: Case, world_size: int) -> list[list[float]]:
    """List the units of each micro-batch, window by window."""
    windows = planned_windows(case.micro_batches(50, 0), case.steps_on(world_size), world_size)
    return [[units_of([batch]) for batch in window] for window in windows]


def test_every_shape_that_is_promised_is_there() -> None:
    """Full and partial windows, unequal and masked micro-batches, too little data, one step; both optimizers."""
    unequal, masked, equal, small, one_step, bounded, empty = CASES
    assert shapes(unequal, 1) == [[8.0, 18.0, 3.0], [1.0, 9.0]]
    assert shapes(equal, 1) == [[4.0, 4.0], [4.0, 4.0]]
    assert len(shapes(small, 1)) == 1
    assert small.accumulation_steps > 1
    assert one_step.accumulation_steps == 1
    assert shapes(one_step, 1) == [[6.0], [1.0], [10.0]], "a window of one target too"
    assert bounded.is_bounded
    assert shapes(masked, 1) == [[4.0, 0.0, 8.0, 0.0]]
    assert shapes(empty, 1) == [[7.0, 0.0], [0.0, 0.0], [6.0]]
    assert unequal.passes > 1
    assert unequal.accumulation_steps > len(unequal.lengths) % unequal.accumulation_steps > 0
    assert {case.optimizer for case in CASES} == {"sgd", "adamw"}


def test_on_two_ranks_one_of_them_runs_out_of_data() -> None:
    """A partial window in which rank 1 has nothing, and a data set that rank 1 has nothing of."""
    unequal, masked, _, small, *_ = CASES
    assert shapes(unequal, 2) == [[8.0, 3.0, 18.0, 1.0], [9.0]]
    assert small.micro_batches(50, 0)[1::2] == []
    assert [units_of([batch]) for batch in masked.micro_batches(50, 0)[1::2]] == [0.0, 0.0], "targets on rank 0 alone"


def test_targets_inside_a_row_are_ignored_too() -> None:
    """As those of a prompt are."""
    (_, targets), *_ = CASES[0].micro_batches(50, 0)
    assert targets[0, :3].tolist() == [IGNORED] * 3
    assert targets[0, 3].item() != IGNORED


@pytest.mark.parametrize("lengths", [((1,) * (MOST_SEQUENCES + 1),), ((65,),)], ids=["too many", "too long"])
def test_a_proof_is_small(lengths: tuple[tuple[int, ...], ...]) -> None:
    """At most 7 sequences of at most 64 tokens."""
    with pytest.raises(AssertionError, match="small"):
        Case("large", lengths, 1, "sgd")
