"""What goes wrong in the witnessed updates, which come last and decide nothing, leaves the launch as it was."""

from __future__ import annotations

from typing import Any

import pytest

from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow

TOLD = (
    *("peak_phase", "gradient_at_peak_bytes", "activation_bytes", "ddp_bucket_bytes", "temporary_bytes"),
    *("unwitnessed_bytes", "host_reads_per_update", "gradient_sync_rounds_per_update", "gradient_sync_buckets"),
    "witnessed_updates",
)
"""Columns that nobody else knows; on a CPU, which has no counters, the peak too."""
BEFORE = 7
"""Updates before the witnessed one: the first, three of the memory pass, one of warm-up, two timed."""


@pytest.mark.parametrize("action", ["oom", "raise", "kill", "sys_exit"])
def test_whatever_happens_to_the_witness_changes_no_outcome(lab: Any, action: str) -> None:
    """The second of three trials; micro-batches of two sequences, so two micro-steps an update."""
    sweep = lab.sweep()
    bad = lab.trials(sweep)[1]
    summary = lab.run(sweep, f"{bad.trial_id}/backward:{2 * BEFORE + 1}:{action}")
    rows = lab.rows()
    assert rows["outcome"].to_dict() == dict.fromkeys((1, 2, 4), "ok")
    assert {size: "not_witnessed" in flags for size, flags in rows["flags"].items()} == {1: False, 2: True, 4: False}
    row = rows.loc[2]
    assert row[[*TOLD, "peak_allocated_bytes", "reason", "phase"]].isna().all()
    assert rows.loc[[1, 4], [*TOLD[:5], "peak_allocated_bytes"]].notna().all(axis=None)
    assert (
        row[["valid_tokens_per_s", "final_train_loss", "validation_loss", "host_peak_rss_bytes", "fits"]].notna().all()
    )
    assert row["launch_updates"] == BEFORE
    assert summary.failed == 0


@pytest.mark.ddp
def test_rank_that_fails_under_its_witness_is_not_waited_for(lab: Any) -> None:
    """Its peer waits in an exchange that never comes, and is ended; both had measured all that decides."""

    def two_ranks(document: dict[str, Any]) -> None:
        document["axes"] = {"micro_batch_size": [1]}
        document["base"]["world_size"] = 2

    lab.run(lab.sweep(two_ranks), f"forward@0:{2 * BEFORE + 1}:sleep", f"forward@1:{2 * BEFORE + 1}:oom")
    row = lab.rows().loc[1]
    assert (row["outcome"], "not_witnessed" in row["flags"]) == ("ok", True)
    assert row[[*TOLD, "reason"]].isna().all()
    assert row["launch_s"] < PATIENCE_S, "the driver waited for its own limit"
