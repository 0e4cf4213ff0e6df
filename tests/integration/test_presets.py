"""Launches of open length in real processes: ranks stop together, and rounds may be added to a finished sweep."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.integration.trivial import PATIENT

pytestmark = [pytest.mark.slow, pytest.mark.ddp]


def quick(document: dict[str, Any]) -> None:
    """Measure by the shortest preset, on one and on two ranks."""
    document["axes"] = {"world_size": [1, 2]}
    document["base"]["micro_batch_size"] = 1
    document["measure"] = {"preset": "quick", "rounds": 1, "quality_updates": 6, **PATIENT}


def test_ranks_stop_together_and_more_rounds_extend_a_finished_sweep(lab: Any) -> None:
    """Rank 0 decides, the others hear of it; what is done is not done again."""
    sweep = lab.sweep(quick)
    lab.run(sweep)
    first = lab.rows()
    assert first["outcome"].tolist() == ["ok", "ok"], first["reason"].tolist()
    assert set(first["stop_reason"]) <= {"precision", "cap"}
    assert (first["target_half_width"] == 0.02).all()
    for column in ("half_width", "lag1", "spread", "final_train_loss", "validation_loss"):
        assert first[column].notna().all()
    assert (first["warmup_updates"] >= 25).all()
    assert (first["updates_attempted"] >= 10).all()
    assert (first["timed_s"] >= 1.0).all()
    assert (first["segments"] >= 1).all()

    updates = pd.read_parquet(lab.folder / "results" / "updates.parquet")
    for trial_id, own in updates.groupby("trial_id"):
        row = first[first["trial_id"] == trial_id].iloc[0]
        timed = own[own["phase"] == "timed"]
        assert own["update"].tolist() == list(range(len(own)))
        assert len(timed) == row["updates_attempted"]
        assert timed["valid_tokens"].sum() == row["valid_tokens"]

    lab.run(sweep.with_rounds(2))
    assert lab.progress.owed == 2
    assert sorted(lab.rows()["round"]) == [0, 0, 1, 1]
    lab.run(sweep)
    assert lab.progress.owed == 0
