"""One global batch gives one loss curve, however it is cut over micro-batches and ranks: through the sweep itself."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.integration.trivial import PATIENT
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.ddp]

SGD = {"name": "sgd", "lr": 0.2, "momentum": 0.9, "weight_decay": 0.0}
ADAMW = {"name": "adamw", "lr": 3e-3, "weight_decay": 0.1}
CUTS = {"world_size": [1, 2], "micro_batch_size": [1, 2, 4, 8]}


def run(lab: Any, axes: dict[str, list[Any]], **base: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run a small sweep and give its rows and its updates but the witnessed ones, each with its axis values."""

    def change(document: dict[str, Any]) -> None:
        document["axes"] = axes
        document["measure"] = {"warmup_updates": 0, "updates": 2, "quality_updates": 6, **PATIENT}

    lab.run(lab.sweep(change, global_batch_size=16, **base))
    folder = lab.folder / "results"
    rows = pd.read_parquet(folder / "results.parquet")
    updates = pd.read_parquet(folder / "updates.parquet")
    keys = ["trial_id", "world_size", "micro_batch_size", "window_mode", "gradient_sync", "amp_mode"]
    return rows, updates[updates["phase"] != "witness"].merge(rows[keys], on="trial_id")


def write_text(folder: Path) -> str:
    """Write a few hundred short documents that can be learnt; give the glob that finds them."""
    choice = random.Random(0)
    (folder / "text").mkdir()
    for number in range(300):
        words = choice.choices(["the cat", "sat on", "a mat", "while it", "rained"], k=choice.randint(1, 6))
        (folder / "text" / f"{number:03}.txt").write_text(" ".join(words))
    return str(folder / "text" / "*.txt")


def largest_spread(updates: pd.DataFrame, column: str) -> float:
    """Give the largest relative difference of a column between trials at one update."""
    groups = updates.groupby("update")[column]
    return float(((groups.max() - groups.min()) / groups.mean().abs()).max())


@pytest.mark.parametrize(
    ("optimizer", "rows", "tolerance"),
    [(SGD, "ragged", 1e-5), (SGD, "padded", 1e-5), (SGD, "packed", 1e-5), (ADAMW, "ragged", 1e-4)],
    ids=["sgd-ragged", "sgd-padded", "sgd-packed", "adamw-ragged"],
)
@pytest.mark.parametrize("model", ["gpt2-nano", "llama-nano"])
def test_every_cut_has_the_same_loss_at_every_update(
    lab: Any, model: str, optimizer: dict[str, Any], rows: str, tolerance: float
) -> None:
    """World size 1 and 2, micro-batches of 1 to 8: loss, norm, rate, valid tokens and validation loss agree.

    https://github.com/karpathy/nanoGPT/issues/283
    """
    data = {"text": write_text(lab.folder), "rows": rows}
    table, updates = run(lab, CUTS, model={"preset": model}, data=data, optimizer=optimizer)
    assert table["outcome"].tolist() == ["ok"] * 8, table["reason"].tolist()
    assert (table["world_size"] * table["micro_batch_size"] * table["accumulation_steps"] == 16).all()
    assert len(updates) == 8 * 7
    assert largest_spread(updates, "train_loss") <= tolerance
    assert largest_spread(updates, "grad_norm") <= 100 * tolerance
    for column in ("valid_tokens", "sequences", "lr"):
        assert updates.groupby("update")[column].nunique().eq(1).all(), column
    if rows != "ragged":
        assert updates.groupby("update")["token_slots"].nunique().eq(1).all()
    assert table["validation_loss"].notna().all()
    assert table["validation_loss"].max() / table["validation_loss"].min() - 1 <= tolerance
    assert table["final_train_loss"].max() / table["final_train_loss"].min() - 1 <= tolerance
    curve = updates.groupby("update")["train_loss"].mean()
    assert abs(curve.iloc[-1] / curve.iloc[0] - 1) > 100 * tolerance  # it moves by far more than it may differ


def test_window_and_sync_modes_change_cost_and_not_the_curve(lab: Any) -> None:
    """Streamed equals buffered, `every` equals `last`; rounds and buckets are counted; partial windows included."""
    axes = {"window_mode": ["buffered", "streamed"], "gradient_sync": ["last", "every"], "world_size": [1, 2]}
    data = {"synthetic": {"documents": 400, "mean_tokens": 20}, "rows": "ragged", "sequences_per_epoch": 37}
    table, updates = run(lab, axes, data=data, optimizer=SGD, micro_batch_size=2)
    ran = table[table["outcome"] == "ok"]
    assert len(ran) == 6, table[["outcome", "reason"]].to_string()
    assert largest_spread(updates, "train_loss") <= 1e-5
    assert updates.groupby("update")["valid_tokens"].nunique().eq(1).all()
    assert updates.groupby("update")["sequences"].first().tolist() == [16, 16, 16, 16, 16, 5, 16]
    assert (ran["windows_partial"] == 1).all()
    by_mode = ran.set_index(["world_size", "gradient_sync", "window_mode"]).sort_index()
    assert (by_mode.loc[1, "gradient_sync_rounds_per_update"] == 0).all()
    assert by_mode.loc[1, "gradient_sync_buckets"].isna().all()
    for window_mode in ("buffered", "streamed"):
        assert by_mode.loc[(2, "last", window_mode), "gradient_sync_rounds_per_update"] == 1
        assert by_mode.loc[(2, "every", window_mode), "gradient_sync_rounds_per_update"] == 4
    assert (by_mode.loc[2, "gradient_sync_buckets"] == 1).all()
    assert (ran["host_reads_per_update"] == 0).all()


def test_peak_is_never_below_what_lives_through_it(lab: Any) -> None:
    """Peak >= parameters + gradients + optimizer state, in every row; fp16 reads once an update.

    https://github.com/flagos-ai/Torch-FL/pull/364 and https://github.com/verl-project/verl/pull/1349
    """
    table, _ = run(lab, {"amp_mode": ["fp32", "bf16", "fp16"], "world_size": [1, 2]}, optimizer=ADAMW)
    assert table["outcome"].tolist() == ["ok"] * 6, table["reason"].tolist()
    resident = table["parameter_bytes"] + table["gradient_bytes"] + table["optimizer_state_bytes"]
    assert (table["peak_allocated_bytes"] > resident).all()
    two_moments = 2 * 4 * table["parameters_trainable"]
    assert (table["optimizer_state_bytes"] >= two_moments).all()
    assert (table["optimizer_state_bytes"] < 1.02 * two_moments).all()
    assert table.groupby("amp_mode")["host_reads_per_update"].max().to_dict() == {"fp32": 0, "bf16": 0, "fp16": 1}
    assert (table["updates_attempted"] == table["updates_applied"] + table["updates_skipped"]).all()
    # Whatever else is said of two updates on a busy machine, the model and its memory raise no doubt.
    doubts = {"batch_coupled", "random_layers", "mem_unstable", "alloc_retries", "amp_skips"}
    assert not any(doubts & set(flags) for flags in table["flags"])


@pytest.fixture
def two_ranks(lab: Any) -> Any:
    """Give the one trial of a sweep on two ranks, and a way to run it with faults."""

    def change(document: dict[str, Any]) -> None:
        document["axes"] = {"micro_batch_size": [1]}

    sweep = lab.sweep(change, world_size=2, optimizer=SGD)
    (trial,) = lab.trials(sweep)

    def run_with(*faults: str) -> pd.Series[Any]:
        lab.run(sweep, *(f"{trial.trial_id}/{fault}" for fault in faults))
        return lab.rows().loc[1]

    return run_with


def test_ranks_that_diverged_make_the_launch_invalid(two_ranks: Any) -> None:
    """One weight of rank 1 is changed before an update; the row names the parameter and claims no speed."""
    row = two_ranks("update@1:5:diverge")
    assert row["outcome"] == "invalid"
    assert row["reason"].startswith("the ranks hold different parameters after the last update: ")
    assert ".weight" in row["reason"]
    assert pd.isna(row["valid_tokens_per_s"])


@pytest.mark.parametrize("point", ["build", "forward", "backward"])
def test_one_failing_rank_ends_the_launch_with_its_own_words(two_ranks: Any, point: str) -> None:
    """Rank 1 raises; the row names it and its text, not the peers' broken connections, and nobody waits for a limit.

    https://github.com/mosaicml/composer/pull/2117
    """
    row = two_ranks(f"{point}@1:{1 if point == 'build' else 3}:raise")
    assert row["outcome"] == "failed"
    assert row["failing_rank"] == 1
    assert "a fault on purpose" in row["reason"]
    assert row["launch_s"] < PATIENCE_S, "the driver waited for its own limit"
