"""Division happens at the end, over counts and seconds of the same part."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.record.columns import COLUMNS
from bench.record.derive import derive

ROW = {
    "outcome": "ok",
    "world_size": 2,
    "valid_tokens": 900,
    "token_slots": 1000,
    "updates_attempted": 3,
    "timed_s": 4.0,
    "data_wait_s": 0.5,
}


def timed(*seconds):
    return [{"phase": "timed", "seconds": value} for value in seconds]


def test_rates_are_counts_by_seconds():
    """Every rate follows from the counts and seconds beside it."""
    row = derive(ROW, timed(1.0, 1.0, 2.0))
    assert row["valid_tokens_per_s"] == 225.0
    assert row["token_slots_per_s"] == 250.0
    assert row["valid_tokens_per_s_per_gpu"] == 112.5
    assert row["token_slots_per_s_per_gpu"] == 125.0
    assert row["valid_tokens_per_update"] == 300.0
    assert row["data_wait_share"] == 0.125
    assert row["update_s_median"] == 1.0


def test_every_derived_column_is_filled():
    """The registry and this function know the same derived columns."""
    declared = {column.name for column in COLUMNS if column.rule == "derived"}
    assert derive(ROW, []).keys() - ROW.keys() == declared


def test_only_timed_updates_give_percentiles():
    """First, memory and warm-up updates never reach a figure."""
    others = [{"phase": phase, "seconds": 99.0} for phase in ("first", "memory", "warmup", "quality")]
    assert derive(ROW, [*others, *timed(1.0)])["update_s_p95"] == 1.0


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40))
def test_percentiles_are_numpys(seconds):
    """The percentiles are those everyone gets from numpy."""
    row = derive(ROW, timed(*seconds))
    for name, share in (("update_s_p05", 5), ("update_s_median", 50), ("update_s_p95", 95)):
        assert row[name] == pytest.approx(float(np.percentile(seconds, share)))


@pytest.mark.parametrize(
    "change", [{"outcome": "invalid"}, {"timed_s": None}, {"timed_s": 0.0}, {"valid_tokens": None}]
)
def test_a_rate_without_all_its_inputs_is_null(change):
    """No input, no rate; and a launch that was not ok has no speed."""
    assert derive({**ROW, **change}, [])["valid_tokens_per_s"] is None


def test_rates_of_shortened_windows_are_those_of_full_ones():
    """Four micro-steps ran where 32 were asked for: the optimizer step must not count eight times too often."""
    # A micro-step of 0.5 s and an update part of 2 s: full windows take 18 s, the four-step ones took 4 s each.
    row = {
        **ROW,
        "time_method": "extrapolated",
        "accumulation_steps": 32,
        "world_size": 2,
        "micro_batches": 3 * 4 * 2,
        "valid_tokens": 3 * 4 * 2 * 100,
        "token_slots": 3 * 4 * 2 * 128,
        "timed_s": 12.0,
        "micro_step_s": 0.5,
        "update_step_s": 2.0,
    }
    found = derive(row, timed(4.0, 4.0, 4.0))
    assert found["valid_tokens_per_s"] == pytest.approx(32 * 2 * 100 / 18)
    assert found["token_slots_per_s"] == pytest.approx(32 * 2 * 128 / 18)
    assert (found["update_s_median"], found["update_s_p05"], found["update_s_p95"]) == (18.0, None, None)
    assert found["valid_tokens_per_update"] == 32 * 2 * 100


def test_energy_of_a_token_is_that_of_all_gpus():
    """Joules of the mean GPU, times the GPUs, by the tokens of the same timed part."""
    assert derive(ROW | {"joules_per_gpu": 450.0}, [])["joules_per_valid_token"] == 1.0


@pytest.mark.parametrize(
    "changes",
    [
        {"joules_per_gpu": None},
        {"outcome": "invalid"},
        {"valid_tokens": 0},
        {"time_method": "extrapolated", "micro_step_s": 0.1, "update_step_s": 0.1, "accumulation_steps": 8},
    ],
)
def test_energy_of_a_token_is_null_where_it_is_not_known(changes):
    """Without a counter, without tokens, of a run that diverged, and of windows that were shortened."""
    row = {**ROW, "joules_per_gpu": 450.0, "micro_batches": 16, **changes}
    assert derive(row, [])["joules_per_valid_token"] is None
