"""A row of a stand-in GPU keeps bytes, counts and errors, and nothing else that a kernel would have made."""

from __future__ import annotations

import pytest

from bench.record.bytes_only import FLAGS, SPEED_AND_SENSORS, VALUES, bytes_only, is_bytes_only, updates_of_bytes_only
from bench.record.columns import COLUMN_BY_NAME, COLUMNS
from bench.record.derive import derive
from bench.statistics.health import FLAG_SENTENCES
from bench.telemetry.summary import TELEMETRY_FLAG_SENTENCES

KEPT = {
    "counts": {"host_reads_per_update", "updates_attempted", "valid_tokens", "gradient_sync_buckets"},
    "time": {"launch_s", "segments", "target_half_width", "threads_per_rank"},
    "efficiency": {
        *("token_pairs", "model_flops", "hardware_flops", "flops_formula_version", "model_flops_per_token"),
    },
    "memory": {"peak_allocated_bytes", "peak_reserved_bytes", "alloc_retries", "fits", "activation_bytes"},
    "energy and health": {"foreign_processes", "telemetry_problem"},
    "quality": set(),
}
"""By group: what stays, all of it in the groups of time, efficiency, health and quality."""


@pytest.mark.parametrize("group", KEPT)
def test_what_stays_of_each_group(group: str) -> None:
    unknown = SPEED_AND_SENSORS | VALUES
    stays = {column.name for column in COLUMNS if column.group == group and column.name not in unknown}
    if group in ("counts", "memory"):
        assert KEPT[group] <= stays
    else:
        assert stays == KEPT[group]


def test_every_column_with_time_in_its_unit_is_null_but_the_launchs_own() -> None:
    row = derive({"outcome": "ok", "world_size": 1, "valid_tokens": 9, "token_slots": 9, "timed_s": 3.0}, [])
    row |= {"joules_per_gpu": 5.0, "mfu": 0.3, "launch_s": 2.0, "final_train_loss": 0.0, "parameter_bytes": 8}
    left = {name: value for name, value in bytes_only(row, has_values=False).items() if value is not None}
    seconds = {name for name in left if name in COLUMN_BY_NAME and "second" in (COLUMN_BY_NAME[name].unit or "")}
    assert seconds == {"launch_s"}
    assert not {"valid_tokens_per_s", "mfu", "joules_per_gpu", "final_train_loss"} & left.keys()
    assert left["parameter_bytes"] == 8
    assert left["valid_tokens"] == 9
    assert is_bytes_only(left)


def test_losses_stay_where_a_test_computes_them_and_speed_does_not() -> None:
    row = {"final_train_loss": 3.0, "valid_tokens_per_s": 100.0}
    told = bytes_only(row, has_values=True)
    assert (told["final_train_loss"], told["valid_tokens_per_s"]) == (3.0, None)
    update = {"update": 0, "seconds": 0.1, "train_loss": 3.0, "grad_norm": 1.0, "peak_allocated_bytes": 5}
    assert updates_of_bytes_only([update], has_values=True) == [{**update, "seconds": None}]
    nothing = {"seconds": None, "train_loss": None, "grad_norm": None}
    assert updates_of_bytes_only([update], has_values=False) == [update | nothing]


def test_doubts_about_time_go_and_those_about_memory_stay() -> None:
    flags = ["alloc_retries", "batch_coupled", "clock_mismatch", "few_updates", "gpu_shared", "mem_unstable"]
    assert bytes_only({"flags": flags}, has_values=False)["flags"] == [
        *("alloc_retries", "batch_coupled", "gpu_shared", "mem_unstable"),
    ]
    assert {*FLAG_SENTENCES, *TELEMETRY_FLAG_SENTENCES} > FLAGS


def test_other_rows_are_none() -> None:
    assert not is_bytes_only({"memory_method": "caching_allocator"})
    assert not is_bytes_only({})
