"""Declare every column of the results and updates tables, once.

The parquet schema, the rules across ranks, `docs/columns.md` and the headings of tables all read this registry.
Columns may be added, always nullable; a column is never renamed, retyped or given another meaning without raising
`SCHEMA_VERSION`. Units are base units (bytes, seconds, tokens); missing is null, never 0 or -1.
"""

from __future__ import annotations

from bench.record.column_types import Column, Kind, Rule

# History of the schema, newest first.
# 1: first version.
SCHEMA_VERSION = 1
"""Version of the two tables below; a file with a larger one is refused by name."""


def _identity(name: str, kind: Kind, sentence: str, *, unit: str | None = None, rule: Rule = "launch") -> Column:
    return Column(name, kind, unit, "identity", rule, sentence)


def _config(name: str, kind: Kind, sentence: str, unit: str | None = None) -> Column:
    return Column(name, kind, unit, "configuration", "config", sentence)


def _model(name: str, kind: Kind, sentence: str, unit: str | None = None) -> Column:
    return Column(name, kind, unit, "model and data", "same", sentence)


def _switch(name: str, kind: Kind, sentence: str) -> Column:
    return Column(name, kind, None, "switches read back", "same", sentence)


def _count(name: str, unit: str, rule: Rule, sentence: str, kind: Kind = "int64") -> Column:
    return Column(name, kind, unit, "counts", rule, sentence)


def _time(
    name: str, unit: str | None, rule: Rule, sentence: str, kind: Kind = "float64", source: str | None = None
) -> Column:
    return Column(name, kind, unit, "time", rule, sentence, source)


def _memory(name: str, rule: Rule, sentence: str, kind: Kind = "int64", source: str | None = None) -> Column:
    return Column(name, kind, "byte", "memory", rule, sentence, source)


def _machine(name: str, kind: Kind, rule: Rule, sentence: str, source: str | None = None) -> Column:
    return Column(name, kind, None, "machine and software", rule, sentence, source)


COLUMNS: tuple[Column, ...] = (
    # Identity: which launch this row is, and how it ended.
    _identity(
        "schema_version", "int64", "Version of this table's columns; readers refuse a larger one than their own."
    ),
    _identity(
        "measurement_version", "int64", "Version of the measuring method, raised whenever a change moves numbers."
    ),
    _identity("sweep", "string", "Name of the sweep, as in its file."),
    _identity("trial_id", "string", "First 12 hexadecimal digits of the SHA-256 of the resolved configuration."),
    _identity(
        "round", "int64", "Pass over the trials this launch belongs to, from 0; null for skipped and pruned trials."
    ),
    _identity(
        "attempt", "int64", "Number of this attempt at the same trial and round, from 0; the table keeps the last."
    ),
    _identity("order", "int64", "Position of this launch in the shuffled order of its round, from 0."),
    _identity(
        "outcome",
        "string",
        "How it ended: ok, oom, oom_host, failed, timeout, hang, killed, invalid, interrupted, skipped or pruned.",
    ),
    _identity("reason", "string", "One sentence why the outcome is not ok; null when it is."),
    _identity("phase", "string", "What the first failing rank was doing (build, forward, backward, update, ...)."),
    _identity("failing_rank", "int64", "Rank that failed first; null when none did."),
    _identity("error_class", "string", "Class of the first real exception."),
    _identity("error_text", "string", "Text of the first real exception."),
    _identity(
        "flags",
        "list<string>",
        "Doubts about this row, such as alloc_retries; an empty list means that every check was clean.",
        rule="union",
    ),
    _identity(
        "exit_code", "int64", "Exit code of the failing rank's process, or of rank 0; null when a signal ended it."
    ),
    _identity("signal", "int64", "Number of the signal that ended the failing rank's process; null when none did."),
    _identity("started_utc", "string", "Wall-clock time at which the launch was requested, ISO 8601 in UTC."),
    # Configuration: every resolved field of the trial.
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
    _config("schedule", "string", "Shape of the learning-rate schedule, in updates: constant, linear or cosine."),
    _config("lr_warmup_updates", "int64", "Updates over which the learning rate rises from 0.", "update"),
    _config("clip_norm", "float64", "Gradient norm above which the whole update's gradient is scaled; null when off."),
    _config("seed", "int64", "Seed of weights and of the order of sequences."),
    _config("activation_checkpointing", "bool", "Whether blocks recompute their activations in the backward pass."),
    _config("gradient_sync", "string", "When ranks exchange gradients: last (once per update) or every micro-step."),
    _config(
        "window_mode",
        "string",
        "Whether the micro-batches of an update are cut before it starts (buffered) or one by one (streamed).",
    ),
    _config("config_json", "string", "The whole resolved configuration as canonical JSON."),
    # Facts of the model and of the data, equal on every rank.
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
    # Switches as read back after the model was built, not as asked for.
    _switch("autocast_dtype", "string", "Type autocast computes in; null when autocast is off."),
    _switch("tf32_matmul", "bool", "Whether TF32 was allowed in matrix products; null where it has no meaning."),
    _switch("tf32_cudnn", "bool", "Whether TF32 was allowed in cuDNN; null where it has no meaning."),
    _switch("float32_matmul_precision", "string", "torch's float32 matrix product precision: highest, high or medium."),
    _switch("grad_scaler", "bool", "Whether losses were scaled and updates with inf or nan gradients skipped."),
    # Counts over the timed part unless the sentence says otherwise.
    _count("micro_batches", "micro-batch", "sum", "Forward and backward passes of the timed part, all ranks."),
    _count("sequences", "sequence", "sum", "Sequences trained on in the timed part, all ranks."),
    _count("valid_tokens", "token", "sum", "Targets that contribute to the loss in the timed part, all ranks."),
    _count("token_slots", "token", "sum", "Positions really fed in the timed part, padding included, all ranks."),
    _count("updates_attempted", "update", "same", "Updates of the timed part, whatever became of them."),
    _count("updates_applied", "update", "same", "Updates of the timed part whose optimizer step changed the weights."),
    _count("updates_skipped", "update", "same", "Updates of the timed part that the gradient scaler left out."),
    _count("updates_empty", "update", "same", "Updates of the timed part without any valid token."),
    _count(
        "windows_partial", "update", "same", "Windows of the timed part with fewer sequences than the global batch."
    ),
    _count(
        "launch_updates", "update", "same", "Every update of the launch: first, memory pass, warm-up, timed, quality."
    ),
    _count("warmup_updates", "update", "same", "Updates run as warm-up and left out of every figure."),
    _count("memory_updates", "update", "same", "Updates of the memory pass, left out of the timed part."),
    _count(
        "gradient_sync_rounds_per_update",
        "round/update",
        "same",
        "Times all ranks exchanged their gradients per update, counted; 0 on one rank.",
        "float64",
    ),
    _count(
        "gradient_sync_buckets",
        "bucket",
        "same",
        "Buckets that one exchange of gradients is cut into, counted; null on one rank.",
    ),
    _count(
        "host_reads_per_update",
        "read/update",
        "max",
        "Times the host waited for a value of the device per update of the timed part, worst rank.",
        "float64",
    ),
    _count(
        "valid_tokens_per_update",
        "token/update",
        "derived",
        "valid_tokens / updates_attempted: mean over the timed part, all ranks.",
        "float64",
    ),
    # Time: seconds of the timed part, and rates over the same part.
    _time("timed_s", "second", "max", "Duration of the timed part, edge to edge, slowest rank."),
    _time(
        "timed_s_per_rank", "second", "per_rank", "timed_s of every rank, in rank order.", "list<float64>", "timed_s"
    ),
    _time("first_update_s", "second", "max", "Duration of the launch's first update, slowest rank."),
    _time(
        "update_s_median",
        "second",
        "derived",
        "Median duration of the timed updates, slowest rank of each; of a full window where extrapolated.",
    ),
    _time("update_s_p05", "second", "derived", "5th percentile of the timed updates' durations, slowest rank of each."),
    _time(
        "update_s_p95", "second", "derived", "95th percentile of the timed updates' durations, slowest rank of each."
    ),
    _time(
        "segments",
        "segment",
        "same",
        "Stretches of whole updates between two waits for the device that the timed part consists of.",
        "int64",
    ),
    _time(
        "stop_reason",
        None,
        "rank0",
        "Why the timed part ended: precision (target met), cap (of time or updates) or fixed (length asked for).",
        "string",
    ),
    _time(
        "target_half_width",
        "ratio",
        "same",
        "Half-width relative to the mean that the preset aims at; null with a fixed length.",
    ),
    _time(
        "half_width",
        "ratio",
        "rank0",
        "Half of the 95 % interval of the mean update time / the mean, within this launch (how launches differ, only "
        "rounds tell); null below three samples.",
    ),
    _time("lag1", None, "rank0", "Bias-corrected correlation of neighbouring samples, 0 to 0.95; null below three."),
    _time("spread", "ratio", "rank0", "Standard deviation of one sample / the mean; null below two samples."),
    _time(
        "micro_step_s",
        "second",
        "max",
        "Mean duration of a micro-step between the first and the last of a window, slowest rank; null unless updates "
        "are so long that micro-steps are the samples.",
    ),
    _time(
        "update_step_s",
        "second",
        "max",
        "Mean part of an update's duration that its number of micro-steps does not change, slowest rank; null where "
        "micro_step_s is.",
    ),
    _time("data_wait_s", "second", "max", "Time the timed part waited for its input, worst rank."),
    _time("data_wait_share", "ratio", "derived", "data_wait_s / timed_s."),
    _time(
        "valid_tokens_per_s",
        "token/second",
        "derived",
        "valid_tokens / timed_s: all ranks, whole updates, of full windows where extrapolated; null unless the outcome "
        "is ok.",
    ),
    _time(
        "token_slots_per_s",
        "token/second",
        "derived",
        "token_slots / timed_s: all ranks, padding included, as valid_tokens_per_s; null unless the outcome is ok.",
    ),
    _time(
        "valid_tokens_per_s_per_gpu", "token/second", "derived", "valid_tokens_per_s / world_size (per rank on a CPU)."
    ),
    _time(
        "token_slots_per_s_per_gpu", "token/second", "derived", "token_slots_per_s / world_size (per rank on a CPU)."
    ),
    _time(
        "time_method",
        None,
        "same",
        "How time was taken: host_clock, cuda_events, or extrapolated from shortened windows by update_step_s + "
        "accumulation_steps x micro_step_s.",
        "string",
    ),
    _time("launch_s", "second", "launch", "From the request of the launch to the reaped exit of its last process."),
    _time("threads_per_rank", "thread", "same", "CPU threads torch used on each rank.", "int64"),
    # Memory: bytes. Allocated <= active <= reserved <= capacity.
    _memory(
        "peak_allocated_bytes",
        "max",
        "Most bytes in live tensors, worst rank; on a CPU the live tensor storages of the memory pass.",
    ),
    _memory(
        "peak_allocated_bytes_per_rank",
        "per_rank",
        "peak_allocated_bytes of every rank, in rank order.",
        "list<int64>",
        "peak_allocated_bytes",
    ),
    _memory(
        "first_update_peak_allocated_bytes",
        "max",
        "Most bytes in live tensors during the launch's first update, worst rank.",
    ),
    _memory(
        "peak_active_bytes",
        "max",
        "Most bytes allocated or freed but still held by a stream, worst rank; null on a CPU.",
    ),
    _memory("peak_reserved_bytes", "max", "Most bytes the caching allocator held, worst rank; null on a CPU."),
    _memory("parameter_bytes", "max", "Bytes of the unique parameters, worst rank."),
    _memory("gradient_bytes", "max", "Bytes of all gradients, worst rank."),
    _memory("optimizer_state_bytes", "max", "Bytes of the optimizer's state after an applied update, worst rank."),
    _memory("host_peak_rss_bytes", "max", "High-water mark of the process's resident memory, worst rank."),
    Column(
        "alloc_retries",
        "int64",
        "retry",
        "memory",
        "sum",
        "Allocations that had to free cached blocks first, all ranks.",
    ),
    Column("alloc_ooms", "int64", "error", "memory", "sum", "Allocations that failed for want of memory, all ranks."),
    _memory("device_capacity_bytes", "min", "Total memory of the device, smallest rank; host memory on a CPU."),
    Column(
        "memory_method",
        "string",
        None,
        "memory",
        "same",
        "How peak bytes were taken: live_storages (CPU) or caching_allocator (CUDA).",
    ),
    # Quality at a fixed update, so that it compares whatever the length of the launch.
    Column(
        "final_train_loss",
        "float64",
        "nat/token",
        "quality",
        "same",
        "Training loss per valid token at update quality_updates; null when quality_updates is 0.",
    ),
    Column(
        "validation_loss",
        "float64",
        "nat/token",
        "quality",
        "same",
        "Loss per valid token of held-out sequences at the parameters that update quality_updates starts from; null "
        "when quality_updates is 0 or the corpus is too small to hold any out.",
    ),
    Column(
        "parameters_checksum",
        "string",
        None,
        "quality",
        "rank0",
        "Checksum of the parameters after the last update; a launch whose ranks differ is invalid.",
    ),
    # Proof that the accumulated update is the update of one large batch.
    Column(
        "proof",
        "string",
        None,
        "proof",
        "launch",
        "Verdict of the accumulation check of this model, AMP mode and world size: PASS, FAIL or NOT PROVEN; null when "
        "it was not run.",
    ),
    Column(
        "proof_error",
        "float64",
        "ratio",
        "proof",
        "launch",
        "Norm of the gradient's error relative to the norm of the whole reference gradient; null when not proven.",
    ),
    # Machine and software.
    _machine("hostname", "string", "rank0", "Name of the host of rank 0."),
    _machine("cpu_model", "string", "rank0", "Model name of the host's CPU."),
    _machine("cpu_count", "int64", "rank0", "Logical CPUs the process may use."),
    _machine("gpu_name", "string", "same", "Name of the GPU; null on a CPU."),
    _machine("gpu_uuid_per_rank", "list<string>", "per_rank", "UUID of every rank's GPU, in rank order.", "gpu_uuid"),
    _machine("driver_version", "string", "rank0", "Version of the GPU driver; null without one."),
    _machine("cuda_version", "string", "same", "Version of CUDA torch was built with; null for a CPU build."),
    _machine("cudnn_version", "string", "same", "Version of cuDNN; null without it."),
    _machine("nccl_version", "string", "same", "Version of NCCL; null without it."),
    _machine("torch_version", "string", "same", "Version of torch."),
    _machine("python_version", "string", "same", "Version of Python."),
    _machine("bench_version", "string", "same", "Version of this tool."),
    _machine("environment_json", "string", "rank0", "Environment variables that can change results, as JSON."),
)
"""Every column of `results.parquet`, in file order."""


def _update(name: str, kind: Kind, unit: str | None, rule: Rule, sentence: str) -> Column:
    return Column(name, kind, unit, "updates", rule, sentence)


UPDATE_COLUMNS: tuple[Column, ...] = (
    _update("trial_id", "string", None, "launch", "Trial the update belongs to."),
    _update("round", "int64", None, "launch", "Round of the launch, from 0."),
    _update("attempt", "int64", None, "launch", "Attempt of the launch, from 0."),
    _update("update", "int64", None, "same", "Number of the update, from 0 at the initial weights."),
    _update("phase", "string", None, "same", "Part of the launch: first, memory, quality, warmup, timed or confirm."),
    _update(
        "seconds", "float64", "second", "max", "Duration of the update, slowest rank; null where it was not timed."
    ),
    _update("micro_batches", "int64", "micro-batch", "sum", "Forward and backward passes, all ranks."),
    _update("sequences", "int64", "sequence", "sum", "Sequences trained on, all ranks."),
    _update("valid_tokens", "int64", "token", "sum", "Targets that contribute to the loss, all ranks."),
    _update("token_slots", "int64", "token", "sum", "Positions really fed, padding included, all ranks."),
    _update("train_loss", "float64", "nat/token", "same", "Loss per valid token of the window over all ranks."),
    _update("grad_norm", "float64", None, "same", "Norm of the whole gradient before clipping."),
    _update("lr", "float64", None, "same", "Learning rate the update used."),
    _update("loss_scale", "float64", None, "same", "Scale of the gradient scaler at this update; null without one."),
    _update("result", "string", None, "same", "What became of the update: applied, skipped or empty."),
    _update(
        "peak_allocated_bytes", "int64", "byte", "max", "Most bytes in live tensors during the update, worst rank."
    ),
)
"""Every column of `updates.parquet`, in file order."""

COLUMN_BY_NAME: dict[str, Column] = {column.name: column for column in COLUMNS}
UPDATE_COLUMN_BY_NAME: dict[str, Column] = {column.name: column for column in UPDATE_COLUMNS}
