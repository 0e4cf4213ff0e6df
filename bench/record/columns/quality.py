"""Columns of losses, and of the proof that the accumulated update is the update of one large batch."""

from __future__ import annotations

from bench.record.column_types import Column

QUALITY: tuple[Column, ...] = (
    Column(
        "final_train_loss",
        "float64",
        "nat/token",
        "quality",
        "same",
        "Training loss per valid token at update number quality_updates; null when quality_updates is 0, or when "
        "windows were shortened before it.",
    ),
    Column(
        "validation_loss",
        "float64",
        "nat/token",
        "quality",
        "same",
        "Loss per valid token of held-out sequences, with the parameters before update number quality_updates; null "
        "when quality_updates is 0, when windows were shortened before it, or when the corpus is too small to hold any "
        "out.",
    ),
    Column(
        "parameters_checksum",
        "string",
        None,
        "quality",
        "rank0",
        "Checksum of the parameters before the witnessed updates; if ranks differ, the launch is invalid.",
    ),
)
"""Quality at a fixed update, so that it compares whatever the length of the launch."""

PROOF: tuple[Column, ...] = (
    Column(
        "proof",
        "string",
        None,
        "proof",
        "launch",
        "Verdict of the proof for this configuration: PASS, FAIL or NOT PROVEN; null when no proof was run.",
    ),
    Column(
        "proof_error",
        "float64",
        "ratio",
        "proof",
        "launch",
        "Norm of the gradient's error / norm of the gradient of one concatenated batch; null when not proven.",
    ),
)
"""Proof that the accumulated update is the update of one large batch."""
