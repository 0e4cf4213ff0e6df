"""The row of a launch, from what its ranks wrote."""

from __future__ import annotations

from typing import Any

import pytest

from bench.drive.recording import row_of
from bench.drive.schedule import PlannedLaunch
from bench.launch.launcher import LaunchEnd
from bench.launch.outcome import RankEnd
from bench.sweep.expand import expand
from bench.sweep.trial import Trial
from tests.integration import trivial


@pytest.mark.parametrize(("peak", "flags"), [(2e6, ["few_updates"]), (1e6, ["above_peak", "few_updates"])])
def test_a_share_above_one_is_a_flag_of_the_row(peak: float, flags: list[str]) -> None:
    (trial,) = expand(trivial.sweep_of({"seed": [0]}), trivial.CPU)
    assert isinstance(trial, Trial)
    columns: dict[str, Any] = {
        "flags": ["few_updates"],
        "token_slots": 1000,
        "valid_tokens": 1000,
        "timed_s": 4.0,
        "model_flops": 6e6,
        "hardware_flops": 6e6,
        "peak_flops_per_s_bf16": peak,
    }
    end = LaunchEnd((RankEnd(0, 0, {"outcome": "ok", "rank": 0, "columns": columns}, None),), None, 0.01)
    row, _ = row_of("s", PlannedLaunch(trial, 0, 0, 0), end, "2026-01-01T00:00:00+00:00")
    assert row["mfu"] == 1.5e6 / peak
    assert row["flags"] == flags
