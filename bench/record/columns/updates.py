"""Columns of the updates table: one row per update of a launch."""

from __future__ import annotations

from bench.record.column_types import Column, Kind, Rule


def _update(name: str, kind: Kind, unit: str | None, rule: Rule, sentence: str) -> Column:
    return Column(name, kind, unit, "updates", rule, sentence)


UPDATE_COLUMNS: tuple[Column, ...] = (
    _update("trial_id", "string", None, "launch", "Trial that the update belongs to."),
    _update("round", "int64", None, "launch", "Round of the launch, from 0."),
    _update("attempt", "int64", None, "launch", "Attempt of the launch, from 0."),
    _update("update", "int64", None, "same", "Number of the update, from 0 at the initial weights."),
    _update(
        "phase",
        "string",
        None,
        "same",
        "Part of the launch: first, memory, quality, warmup, timed, confirm, whole or witness.",
    ),
    _update("seconds", "float64", "second", "max", "Duration of the update, slowest rank; null if it was not timed."),
    _update("micro_batches", "int64", "micro-batch", "sum", "Micro-batches (forward and backward passes), all ranks."),
    _update("sequences", "int64", "sequence", "sum", "Sequences trained on, all ranks."),
    _update("units", "float64", "unit", "sum", "Units of the loss, all ranks; see the row's unit."),
    _update(
        "valid_tokens",
        "int64",
        "token",
        "sum",
        "Targets that contribute to the loss, all ranks; null where the unit is no token.",
    ),
    _update("token_slots", "int64", "token", "sum", "Elements fed, padding included, all ranks."),
    _update(
        "train_loss",
        "float64",
        "nat/unit",
        "same",
        "Loss per unit (valid token) of the window over all ranks; null in shortened windows and in witnessed updates.",
    ),
    _update("grad_norm", "float64", None, "same", "Norm of the whole gradient before clipping."),
    _update("lr", "float64", None, "same", "Learning rate that the update used."),
    _update("loss_scale", "float64", None, "same", "Scale of the gradient scaler at this update; null without one."),
    _update("result", "string", None, "same", "What became of the update: applied, skipped or empty."),
    _update(
        "peak_allocated_bytes",
        "int64",
        "byte",
        "max",
        "As the row's, during this update alone; null where it is known of several updates together.",
    ),
)
"""Every column of `updates.parquet`, in file order."""
