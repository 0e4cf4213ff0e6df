"""Utilisation is FLOPs over seconds over what the device can do at most."""

from __future__ import annotations

from typing import Any

import pytest

from bench.record.derive import derive, doubts_of_derived

SHARES = ("model_flops_per_token", "model_flops_per_s_per_gpu", "mfu", "hfu", "mode_peak_share", "matmul_ceiling_share")
ROW: dict[str, Any] = {
    "outcome": "ok",
    "world_size": 2,
    "token_slots": 1000,
    "valid_tokens": 100,
    "timed_s": 4.0,
    "model_flops": 8e6,
    "hardware_flops": 10e6,
    "peak_flops_per_s_bf16": 4e6,
    "peak_flops_per_s_mode": 2e6,
    "matmul_ceiling_flops_per_s_per_rank": [3e6, 2.5e6],
}


def test_planted_flops_and_peaks_give_exact_shares() -> None:
    """8 MFLOP in 4 s on two GPUs are 1 MFLOP/s each; padding, which has no valid token, is computed too."""
    row = derive(ROW, [])
    assert row["model_flops_per_token"] == 8000.0
    assert row["model_flops_per_s_per_gpu"] == 1e6
    assert row["mfu"] == 0.25
    assert row["hfu"] == 0.3125
    assert row["mode_peak_share"] == 0.5
    assert row["matmul_ceiling_flops_per_s"] == 2.5e6
    assert row["matmul_ceiling_share"] == 0.4


def test_equal_rates_of_a_gpu_are_equal_shares_whatever_the_world_size() -> None:
    """Four GPUs do twice what two do in the same time."""
    more = {name: 2 * ROW[name] for name in ("world_size", "token_slots", "valid_tokens", "model_flops")}
    double = {**ROW, **more, "hardware_flops": 20e6, "matmul_ceiling_flops_per_s_per_rank": [3e6, 2.5e6, 3e6, 2.5e6]}
    assert {name: derive(double, [])[name] for name in SHARES} == {name: derive(ROW, [])[name] for name in SHARES}


@pytest.mark.parametrize("change", [{"outcome": "invalid"}, {"timed_s": None}, {"model_flops": None}])
def test_shares_without_a_rate_are_null(change: dict[str, Any]) -> None:
    """A launch that was not ok reached no share of anything."""
    row = derive({**ROW, **change}, [])
    assert {row[name] for name in SHARES} == {None}


@pytest.mark.parametrize(
    ("missing", "null"),
    [
        ("peak_flops_per_s_bf16", ["mfu", "hfu"]),
        ("peak_flops_per_s_mode", ["mode_peak_share"]),
        ("hardware_flops", ["hfu"]),
        ("matmul_ceiling_flops_per_s_per_rank", ["matmul_ceiling_share"]),
    ],
)
def test_share_of_an_unknown_peak_is_null_and_the_others_stay(missing: str, null: list[str]) -> None:
    """Unknown is not 0, and not another GPU's."""
    row = derive({**ROW, missing: None}, [])
    assert [name for name in SHARES if row[name] is None] == null


def test_one_rank_without_a_calibration_leaves_the_ceiling_unknown() -> None:
    """The smallest of the others need not be the smallest."""
    row = derive({**ROW, "matmul_ceiling_flops_per_s_per_rank": [3e6, None]}, [])
    assert (row["matmul_ceiling_flops_per_s"], row["matmul_ceiling_share"]) == (None, None)


def test_shortened_windows_have_the_share_of_full_ones() -> None:
    """The rate is extrapolated, and the FLOPs of a token are those that were counted."""
    row = {
        **ROW,
        "time_method": "extrapolated",
        "accumulation_steps": 32,
        "micro_batches": 3 * 4 * 2,
        "micro_step_s": 0.5,
        "update_step_s": 2.0,
        "timed_s": 12.0,
    }
    found = derive(row, [])
    assert found["model_flops_per_s_per_gpu"] == pytest.approx(8000 * found["token_slots_per_s_per_gpu"])
    assert found["model_flops_per_s_per_gpu"] > 8e6 / 12.0 / 2


@pytest.mark.parametrize(
    ("change", "flags"),
    [
        ({}, []),
        ({"peak_flops_per_s_bf16": 1e6, "hardware_flops": 8e6, "peak_flops_per_s_mode": 1e6}, []),  # all of it: 1
        ({"peak_flops_per_s_bf16": 0.9e6}, ["above_peak"]),
        ({"peak_flops_per_s_mode": 0.9e6}, ["above_peak"]),
        ({"hardware_flops": 40e6}, ["above_peak"]),
        ({"peak_flops_per_s_bf16": None, "peak_flops_per_s_mode": None}, []),
        ({"peak_flops_per_s_bf16": 0.9e6, "outcome": "invalid"}, []),
    ],
)
def test_more_than_the_peak_is_flagged(change: dict[str, Any], flags: list[str]) -> None:
    """A wrong peak or a wrong count of FLOPs shows there."""
    assert doubts_of_derived(derive({**ROW, **change}, [])) == flags
