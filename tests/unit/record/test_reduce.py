"""Ranks become one row by each column's rule, whatever their order."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.record.columns import COLUMNS
from bench.record.columns.updates import UPDATE_COLUMNS
from bench.record.reduce import ReduceError, reduce_ranks
from tests.strategies import values_of

BY_RULE = {rule: [c for c in COLUMNS if c.rule == rule] for rule in {c.rule for c in COLUMNS}}


def document(rank, columns=None, updates=()):
    return {"rank": rank, "columns": columns or {}, "updates": list(updates)}


@st.composite
def documents(draw):
    """Draw what several ranks report: equal where they must be equal, free elsewhere."""
    num_ranks = draw(st.integers(1, 4))
    same = {
        c.name: draw(values_of(c)) for c in draw(st.lists(st.sampled_from(BY_RULE["same"]), unique=True, max_size=5))
    }
    free = [c for rule in ("sum", "max", "min", "rank0", "union") for c in BY_RULE[rule]]
    chosen = draw(st.lists(st.sampled_from(free), unique=True, max_size=6))
    ranks = []
    for rank in range(num_ranks):
        own = {c.name: draw(values_of(c)) for c in chosen if draw(st.booleans())}
        own = {
            name: [item for item in value if item] if isinstance(value, list) else value for name, value in own.items()
        }
        update = {
            "update": 3,
            "phase": "timed",
            "seconds": draw(st.floats(0, 9)),
            "valid_tokens": draw(st.integers(0, 9)),
        }
        ranks.append(document(rank, {**same, **own}, [update]))
    return ranks


@settings(max_examples=40)
@given(documents(), st.randoms(use_true_random=False))
def test_the_order_of_the_ranks_never_matters(ranks, random):
    """Any order of the documents gives the same row and the same updates."""
    shuffled = list(ranks)
    random.shuffle(shuffled)
    assert repr(reduce_ranks(shuffled)) == repr(reduce_ranks(ranks))


def test_parts_of_the_peak_are_those_of_the_rank_that_has_it():
    """Each part's largest would add up to a peak that no rank had; of equal peaks the first rank's parts count."""

    def rank(number, peak, activations, temporaries):
        parts = {"activation_bytes": activations, "temporary_bytes": temporaries, "peak_phase": f"phase {number}"}
        return document(number, {"peak_allocated_bytes": peak, **parts})

    names = ("activation_bytes", "temporary_bytes", "peak_phase")
    row, _ = reduce_ranks([rank(1, 90, 50, 40), rank(0, 80, 70, 10)])
    assert [row[name] for name in names] == [50, 40, "phase 1"]
    row, _ = reduce_ranks([rank(1, 90, 50, 40), rank(0, 90, 70, 20), document(2)], 4)
    assert [row[name] for name in names] == [70, 20, "phase 0"]
    row, _ = reduce_ranks([rank(1, None, None, None), rank(0, None, None, None)])
    assert row["activation_bytes"] is None


def test_parts_are_those_of_the_rank_that_requested_most():
    """They add up to requested bytes; another rank may have been given more for less."""
    names = ("peak_requested_bytes", "peak_allocated_bytes", "activation_bytes", "allocator_rounding_bytes")
    given, asked = (dict(zip(names, values, strict=True)) for values in ((79, 99, 6, 20), (80, 90, 7, 10)))
    row, _ = reduce_ranks([document(0, given), document(1, asked)])
    assert (row["peak_requested_bytes"], row["peak_allocated_bytes"]) == (80, 99)
    assert (row["activation_bytes"], row["allocator_rounding_bytes"]) == (7, 10)


def test_each_rule_does_what_it_says():
    """Bytes and seconds are the worst rank's, counts the sum, lists keep every rank, flags are joined."""
    one = {"valid_tokens": 10, "timed_s": 2.0, "peak_allocated_bytes": 5, "device_capacity_bytes": 80, "flags": ["b"]}
    two = {
        "valid_tokens": 12,
        "timed_s": 3.0,
        "peak_allocated_bytes": 300,
        "device_capacity_bytes": 40,
        "flags": ["a", "b"],
    }
    shared = {"updates_applied": 7, "torch_version": "2.13.0"}
    row, _ = reduce_ranks(
        [
            document(1, {**two, **shared, "hostname": "n2", "gpu_uuid": "GPU-1"}),
            document(0, {**one, **shared, "hostname": "n1", "gpu_uuid": "GPU-0"}),
        ]
    )
    assert row == {
        "flags": ["a", "b"],
        "valid_tokens": 22,
        "updates_applied": 7,
        "timed_s": 3.0,
        "timed_s_per_rank": [2.0, 3.0],
        "peak_allocated_bytes": 300,
        "peak_allocated_bytes_per_rank": [5, 300],
        "device_capacity_bytes": 40,
        "hostname": "n1",
        "gpu_uuid_per_rank": ["GPU-0", "GPU-1"],
        "torch_version": "2.13.0",
    }


def test_updates_are_reduced_and_ordered():
    """An update takes the slowest rank's seconds, the sum of counts, and the loss all ranks agree on."""
    mine = {"phase": "timed", "result": "applied", "train_loss": 4.5}
    first = [{"update": n, "seconds": 1.0 + n, "valid_tokens": 10, **mine} for n in (1, 0)]
    second = [{"update": n, "seconds": 2.0, "valid_tokens": 11, **mine} for n in (0, 1)]
    _, updates = reduce_ranks([document(0, {}, first), document(1, {}, second)])
    assert [(u["update"], u["seconds"], u["valid_tokens"], u["train_loss"]) for u in updates] == [
        (0, 2.0, 21, 4.5),
        (1, 2.0, 21, 4.5),
    ]
    assert {name for update in updates for name in update} == {c.name for c in UPDATE_COLUMNS if c.rule != "launch"}


@pytest.mark.parametrize("values", [(7, 8), (7, None)])
def test_a_disagreement_names_the_column_and_both_values(values):
    """What must be equal and is not stops the launch from counting."""
    with pytest.raises(ReduceError, match=rf"updates_applied.*rank 0: {values[0]}, rank 1: {values[1]}"):
        reduce_ranks([document(rank, {"updates_applied": value}) for rank, value in enumerate(values)])


def test_a_disagreement_in_an_update_names_the_update():
    """A loss that differs between ranks is found where it differs."""
    losses = [document(rank, {}, [{"update": 4, "train_loss": float(rank)}]) for rank in (0, 1)]
    with pytest.raises(ReduceError, match="train_loss of update 4"):
        reduce_ranks(losses)


def test_two_losses_that_are_both_nan_agree():
    """Ranks that diverge alike do not contradict each other."""
    row, _ = reduce_ranks([document(rank, {"final_train_loss": math.nan}) for rank in (0, 1)])
    assert math.isnan(row["final_train_loss"])


def test_the_worst_rank_is_found_beside_nan():
    """A nan among seconds is kept whichever rank has it: max() would depend on the order."""
    for order in ((math.nan, 1.0), (1.0, math.nan)):
        row, _ = reduce_ranks([document(rank, {"timed_s": value}) for rank, value in enumerate(order)])
        assert math.isnan(row["timed_s"])


def test_a_rank_without_a_document_makes_sums_unknown():
    """A killed rank leaves a hole in lists and no sum; the peaks of the others stay."""
    columns = {"valid_tokens": 10, "peak_allocated_bytes": 5}
    row, updates = reduce_ranks(
        [document(1, columns, [{"update": 0, "valid_tokens": 3, "seconds": 1.0}])], world_size=2
    )
    assert row == {"valid_tokens": None, "peak_allocated_bytes": 5, "peak_allocated_bytes_per_rank": [None, 5]}
    assert (updates[0]["valid_tokens"], updates[0]["seconds"]) == (None, 1.0)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"valid_token": 1}, "valid_token is not a declared column"),
        ({"valid_tokens_per_s": 1.0}, "valid_tokens_per_s is not a declared column"),
        ({"valid_tokens": 1.0}, r"valid_tokens = 1\.0 is not int64"),
    ],
)
def test_a_rank_may_report_only_what_is_declared(columns, message):
    """Unknown names, values the driver derives, and wrong types are refused by name."""
    with pytest.raises(ReduceError, match=message):
        reduce_ranks([document(0, columns)])


@pytest.mark.parametrize("ranks", [(0, 0), (0, 2)])
def test_ranks_must_be_distinct_and_in_range(ranks):
    """Two documents of one rank, or one of a rank that does not exist, are refused."""
    with pytest.raises(ReduceError, match=r"each of 0\.\.1 may report once"):
        reduce_ranks([document(rank) for rank in ranks])
