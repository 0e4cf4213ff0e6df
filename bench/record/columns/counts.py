"""Columns of what was counted."""

from __future__ import annotations

from bench.record.column_types import Column, Kind, Rule


def _count(name: str, unit: str | None, rule: Rule, sentence: str, kind: Kind = "int64") -> Column:
    return Column(name, kind, unit, "counts", rule, sentence)


COUNTS: tuple[Column, ...] = (
    _count(
        "micro_batches",
        "micro-batch",
        "sum",
        "Micro-batches (forward and backward passes) of the timed part, all ranks.",
    ),
    _count("sequences", "sequence", "sum", "Sequences trained on in the timed part, all ranks."),
    _count(
        "unit",
        None,
        "same",
        "What the loss is a mean over: token (valid target), example or weight (the sum of the weights of targets).",
        "string",
    ),
    _count("units", "unit", "sum", "Units of the loss in the timed part, all ranks; see unit.", "float64"),
    _count(
        "valid_tokens",
        "token",
        "sum",
        "Targets that contribute to the loss in the timed part, all ranks; null where the unit is no token.",
    ),
    _count(
        "token_slots",
        "token",
        "sum",
        "Elements fed in the timed part, padding included, all ranks; of a data factory those of input_ids, null "
        "without.",
    ),
    _count(
        "padding_slots",
        "token",
        "sum",
        "Elements fed in the timed part that only fill up rows, all ranks; null with a data factory.",
    ),
    _count("updates_attempted", "update", "same", "Updates of the timed part: applied, skipped and empty ones."),
    _count("updates_applied", "update", "same", "Updates of the timed part whose optimizer step changed the weights."),
    _count("updates_skipped", "update", "same", "Updates of the timed part that the gradient scaler skipped."),
    _count("updates_empty", "update", "same", "Updates of the timed part without any valid token."),
    _count(
        "windows_partial", "update", "same", "Windows of the timed part with fewer sequences than the global batch."
    ),
    _count(
        "launch_updates",
        "update",
        "same",
        "Updates of the launch before the witnessed ones: first, memory pass, warm-up, timed, quality.",
    ),
    _count("warmup_updates", "update", "same", "Updates of the warm-up, which are in no figure."),
    _count("memory_updates", "update", "same", "Updates of the memory pass, which are not in the timed part."),
    _count(
        "compiled_graphs",
        "graph",
        "max",
        "Graphs that torch.compile compiled in the first update; null where nothing is compiled.",
    ),
    _count(
        "recompiled_graphs",
        "graph",
        "max",
        "Graphs compiled after the first update, for other shapes for instance; null where nothing is compiled.",
    ),
    _count(
        "recompiled_graphs_timed",
        "graph",
        "max",
        "Those of them compiled in the timed part (flag recompiled); null where nothing is compiled.",
    ),
    _count(
        "witnessed_updates",
        "update",
        "same",
        "Updates under the witness, the last of the launch, which tell the parts of the peak, host reads and gradient "
        "syncs; null when they failed (flag not_witnessed), 0 for a compiled model, which a witness would make eager.",
    ),
    _count(
        "gradient_sync_rounds_per_update",
        "round/update",
        "same",
        "Gradient syncs (all ranks average their gradients) per witnessed update, counted; 0 on one rank.",
        "float64",
    ),
    _count(
        "gradient_sync_buckets",
        "bucket",
        "same",
        "Buckets that one gradient sync is divided into, counted; null on one rank.",
    ),
    _count(
        "host_reads_per_update",
        "read/update",
        "max",
        "How often the host waited for a value from the device, per witnessed update, worst rank.",
        "float64",
    ),
    _count(
        "valid_tokens_per_update",
        "token/update",
        "derived",
        "valid_tokens / updates_attempted: mean over the timed part, all ranks.",
        "float64",
    ),
    _count(
        "units_per_update",
        "unit/update",
        "derived",
        "units / updates_attempted: mean over the timed part, all ranks.",
        "float64",
    ),
    _count(
        "padding_share",
        "ratio",
        "derived",
        "padding_slots / token_slots: how much of what was fed is padding; 0 for packed rows.",
        "float64",
    ),
)
"""Counts over the timed part unless the sentence says otherwise."""
