"""Columns of what was asked for, and of the model, data and switches that came of it."""

from __future__ import annotations

from bench.record.column_types import Column, Kind


def _config(name: str, kind: Kind, sentence: str, unit: str | None = None) -> Column:
    return Column(name, kind, unit, "configuration", "config", sentence)


def _model(name: str, kind: Kind, sentence: str, unit: str | None = None) -> Column:
    return Column(name, kind, unit, "model and data", "same", sentence)


def _switch(name: str, kind: Kind, sentence: str) -> Column:
    return Column(name, kind, None, "switches read back", "same", sentence)


CONFIGURATION: tuple[Column, ...] = (
    _config("device", "string", "Kind of device the trial ran on: cpu or cuda."),
    _config("model", "string", "Preset name of the model."),
    _config("model_kind", "string", "Architecture of the model: gpt2 or llama."),
    _config("param_dtype", "string", "Type the weights, and so gradients and optimizer state, are stored in."),
    _config(
        "amp_mode",
        "string",
        "Precision of the arithmetic: fp32, tf32, bf16 (autocast) or fp16 (autocast and gradient scaler).",
    ),
    _config("world_size", "int64", "Processes that train together, one device each.", "rank"),
    _config("micro_batch_size", "int64", "Sequences in one forward and backward pass on one rank.", "sequence"),
    _config("accumulation_steps", "int64", "Micro-batches per update on each rank.", "micro-batch"),
    _config("global_batch_size", "int64", "Sequences per update over all ranks.", "sequence"),
    _config("seq_len", "int64", "Most tokens of one sequence.", "token"),
    _config("data_source", "string", "Where the text comes from: corpus, text, tokens or synthetic, with its name."),
    _config("end_of_text", "int64", "Id that ends each document of a token file; null for one stream without borders."),
    _config(
        "rows",
        "string",
        "How rows are filled: packed (no padding), padded (to seq_len) or ragged (to the micro-batch's longest).",
    ),
    _config(
        "sequences_per_epoch", "int64", "Sequences of the source when finite by request; null otherwise.", "sequence"
    ),
    _config("tail", "string", "What happens to the partial window at an epoch's end: keep or drop."),
    _config("optimizer", "string", "Name of the optimizer: adamw or sgd."),
    _config(
        "optimizer_implementation", "string", "Kernel variant of the optimizer: default, for_loop, foreach or fused."
    ),
    _config("lr", "float64", "Learning rate asked for, before the schedule."),
    _config("weight_decay", "float64", "Weight decay of the optimizer."),
    _config("momentum", "float64", "Momentum of SGD; null for other optimizers or when not set."),
    _config("beta1", "float64", "First decay rate of AdamW; null for other optimizers."),
    _config("beta2", "float64", "Second decay rate of AdamW; null for other optimizers."),
    _config("schedule", "string", "Shape of the learning-rate schedule, in updates: constant, linear or cosine."),
    _config("lr_warmup_updates", "int64", "Updates over which the learning rate rises from 0.", "update"),
    _config(
        "schedule_total_updates",
        "int64",
        "Updates after which a linear or cosine schedule reaches zero; null for a constant one.",
        "update",
    ),
    _config("clip_norm", "float64", "Gradient norm above which the whole update's gradient is scaled; null when off."),
    _config("seed", "int64", "Seed of weights and of the order of sequences."),
    _config("activation_checkpointing", "bool", "Whether blocks recompute their activations in the backward pass."),
    _config("gradient_sync", "string", "When ranks exchange gradients: last (once per update) or every micro-step."),
    _config(
        "window_mode",
        "string",
        "Whether the micro-batches of an update are cut before it starts (buffered) or one by one (streamed).",
    ),
    _config(
        "cpu_threads_per_rank",
        "int64",
        "Threads asked for in each rank; null for the cores divided by the ranks, which threads_per_rank tells.",
        "thread",
    ),
    _config("config_json", "string", "The whole resolved configuration as canonical JSON."),
)
"""Configuration: every resolved field of the trial."""

MODEL: tuple[Column, ...] = (
    _model(
        "parameters_total",
        "int64",
        "Parameter elements of the model, shared ones counted each time they appear.",
        "element",
    ),
    _model("parameters_trainable", "int64", "Unique parameter elements that receive a gradient.", "element"),
    _model("parameters_unique", "int64", "Parameter elements, shared ones counted once.", "element"),
    _model("gradient_dtype", "string", "Type that gradients accumulate in."),
    _model("corpus_hash", "string", "Content hash of the tokens and document borders."),
    _model("corpus_sequences", "int64", "Sequences one epoch of the source holds.", "sequence"),
    _model("vocab_size", "int64", "Distinct token ids the model can take.", "token"),
)
"""Facts of the model and of the data, equal on every rank."""

SWITCHES: tuple[Column, ...] = (
    _switch("autocast_dtype", "string", "Type autocast computes in; null when autocast is off."),
    _switch("tf32_matmul", "bool", "Whether TF32 was allowed in matrix products; null where it has no meaning."),
    _switch("tf32_cudnn", "bool", "Whether TF32 was allowed in cuDNN; null where it has no meaning."),
    _switch("float32_matmul_precision", "string", "torch's float32 matrix product precision: highest, high or medium."),
    _switch("grad_scaler", "bool", "Whether losses were scaled and updates with inf or nan gradients skipped."),
)
"""Switches as read back after the model was built, not as asked for."""
