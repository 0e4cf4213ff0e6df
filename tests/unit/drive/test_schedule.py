"""Which launches a sweep owes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.drive.history import History
from bench.drive.schedule import PlannedLaunch, next_launch, places, probes_of
from bench.drive.search import Probe
from bench.record.fit import limit_bytes
from bench.sweep.fields import TrialConfig
from bench.sweep.trial import Search, Trial

TRIALS = [
    Trial(f"{number:012x}", TrialConfig(micro_batch_size=number + 1, global_batch_size=64), ()) for number in range(8)
]


def record(trial: Trial, round_number: int, outcome: str, attempt: int = 0) -> dict[str, Any]:
    return {
        "kind": "launch",
        "trial_id": trial.trial_id,
        "round": round_number,
        "attempt": attempt,
        "outcome": outcome,
    }


def owed_launches(
    trials: Sequence[Trial], rounds: int, records: Sequence[dict[str, Any]], retry_failed: bool = False
) -> list[PlannedLaunch]:
    history = History(records)
    owed = (next_launch(place, history, retry_failed) for place in places(trials, rounds))
    return [launch for launch in owed if launch is not None]


def test_every_round_is_one_complete_pass_in_an_order_of_its_own() -> None:
    """Interleaving spreads slow drift; the orders differ and none is the file's."""
    owed = owed_launches(TRIALS, 3, [])
    orders = [[launch.trial.trial_id for launch in owed if launch.round == number] for number in range(3)]
    assert all(sorted(order) == [trial.trial_id for trial in TRIALS] for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert [launch.round for launch in owed] == sorted(launch.round for launch in owed)


def test_alternating_rounds_run_there_and_back_again() -> None:
    """AB BA AB BA: each comes first equally often, and a steady drift falls on both alike."""
    order = [(place.point, place.round, place.order) for place in places(TRIALS[:2], 4, "alternating")]
    one, other = TRIALS[:2]
    assert [point for point, _, _ in order] == [one, other, other, one, one, other, other, one]
    assert [(number, place) for _, number, place in order] == [(k // 2, k % 2) for k in range(8)]


def test_a_shuffled_order_is_that_of_every_version() -> None:
    """A folder that an older version began goes on in its order."""
    order = [place.point.trial_id[-1] for place in places(TRIALS, 2)]
    assert "".join(order) == "5423107620147563"


@given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 2))))
def test_resume_goes_on_in_the_same_order_with_what_is_missing(done: set[tuple[int, int]]) -> None:
    """Owed now = owed at first, less what is done, in the same order and with the same places."""
    journal = [record(TRIALS[index], number, "ok") for index, number in done]
    at_first = owed_launches(TRIALS, 3, [])
    finished = {(TRIALS[index].trial_id, number) for index, number in done}
    expected = [launch for launch in at_first if (launch.trial.trial_id, launch.round) not in finished]
    assert owed_launches(TRIALS, 3, journal) == expected


def test_interrupted_launch_is_owed_again_as_a_new_attempt() -> None:
    """However often it was interrupted."""
    journal = [record(TRIALS[0], 0, "interrupted", attempt) for attempt in range(5)]
    (launch,) = owed_launches(TRIALS[:1], 1, journal)
    assert launch.attempt == 5


def test_oom_and_invalid_are_results_and_never_run_again() -> None:
    """Not even when a retry is asked for."""
    journal = [record(TRIALS[0], 0, "oom"), record(TRIALS[1], 0, "invalid")]
    assert owed_launches(TRIALS[:2], 1, journal, retry_failed=True) == []


def test_launch_that_was_killed_by_the_kernel_is_retried_once_at_most() -> None:
    """Its out-of-memory killer endangers the machine; another signal gets all three attempts."""
    by_kernel = [record(TRIALS[0], 0, "killed", attempt) | {"signal": 9} for attempt in range(2)]
    by_itself = [record(TRIALS[0], 0, "killed", attempt) | {"signal": 11} for attempt in range(2)]
    assert len(owed_launches(TRIALS[:1], 1, by_kernel[:1], retry_failed=True)) == 1
    assert owed_launches(TRIALS[:1], 1, by_kernel, retry_failed=True) == []
    assert len(owed_launches(TRIALS[:1], 1, by_itself, retry_failed=True)) == 1


@pytest.mark.parametrize("outcome", ["ok", "oom"])
def test_launch_beside_somebody_else_is_run_once_more(outcome: str) -> None:
    """Its speed, or the memory that was left, may have been theirs; the second one stands, whatever it says."""
    shared = [record(TRIALS[0], 0, outcome, attempt) | {"flags": ["gpu_shared"]} for attempt in range(2)]
    assert [launch.attempt for launch in owed_launches(TRIALS[:1], 1, shared[:1])] == [1]
    assert owed_launches(TRIALS[:1], 1, shared) == []
    assert owed_launches(TRIALS[:1], 1, [record(TRIALS[0], 0, outcome) | {"flags": ["clock_low"]}]) == []


GIGA = 10**9
NEW = {"peak_bytes": 4 * GIGA, "capacity_bytes": 10 * GIGA, "compared_bytes": 5 * GIGA}


@pytest.mark.parametrize(
    ("told", "probe"),
    [
        ({"outcome": "ok", "fits": True, **NEW}, Probe(True, 5 * GIGA, limit_bytes(10 * GIGA))),
        ({"outcome": "ok", "fits": False, **NEW}, Probe(False, 5 * GIGA, limit_bytes(10 * GIGA))),
        ({"outcome": "ok", **NEW}, Probe(True, 5 * GIGA, limit_bytes(10 * GIGA))),
        ({"outcome": "oom", "fits": False}, Probe(False)),
        ({"outcome": "failed"}, Probe(None)),
        # As written before a record told of the fit.
        ({"outcome": "ok", "peak_bytes": 4, "capacity_bytes": 10}, Probe(True, 4, limit_bytes(10))),
        ({"outcome": "oom", "capacity_bytes": 10}, Probe(False, None, limit_bytes(10))),
    ],
)
def test_probe_is_what_the_row_of_its_launch_says(told: dict[str, Any], probe: Probe) -> None:
    """What ended well fits unless its row says that it does not."""
    history = History([record(TRIALS[0], 0, "ok") | told])
    assert probes_of(Search(tuple(TRIALS)), history) == {1: probe}


def test_probe_of_another_gpu_says_nothing_of_this_one() -> None:
    """The search begins anew; back on the first GPU, what it had shown counts again."""
    small, large = ({"kind": "machine", "conditions": {"capacity_bytes": [size]}} for size in (40 * GIGA, 80 * GIGA))
    history = History([small, record(TRIALS[0], 0, "oom")])
    assert probes_of(Search(tuple(TRIALS)), history) == {1: Probe(False)}
    history.add(large)
    assert probes_of(Search(tuple(TRIALS)), history) == {}
    history.add(small)
    assert probes_of(Search(tuple(TRIALS)), history) == {1: Probe(False)}
