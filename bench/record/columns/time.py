"""Columns of seconds and rates."""

from __future__ import annotations

from bench.record.column_types import Column, Kind, Rule


def _time(
    name: str, unit: str | None, rule: Rule, sentence: str, kind: Kind = "float64", source: str | None = None
) -> Column:
    return Column(name, kind, unit, "time", rule, sentence, source)


TIME: tuple[Column, ...] = (
    _time("timed_s", "second", "max", "Duration of the timed part, edge to edge, slowest rank."),
    _time(
        "timed_s_per_rank", "second", "per_rank", "timed_s of every rank, in rank order.", "list<float64>", "timed_s"
    ),
    _time(
        "timed_cpu_s",
        "second",
        "sum",
        "CPU time of the timed part, over all threads of all ranks; if it is near timed_s x ranks x threads, the host"
        " is the limit.",
    ),
    _time(
        "others_cpu_share",
        "ratio",
        "max",
        "CPU time that other processes took on the cores of the ranks in the timed part / (cores x timed_s), by the "
        "kernel's counters; null where it has none, as in the three columns below.",
    ),
    _time(
        "steal_share",
        "ratio",
        "max",
        "Time in which a hypervisor ran other machines on these cores / (cores x timed_s).",
    ),
    _time(
        "cpu_wait_share",
        "ratio",
        "max",
        "Time that the threads of a rank were ready and waited for a core / (that + the time they ran), worst rank.",
    ),
    _time(
        "cpu_throttled_share",
        "ratio",
        "max",
        "Time in which a limit on CPU time held back the control group that the ranks run in / timed_s.",
    ),
    _time(
        "first_update_s",
        "second",
        "max",
        "Duration of the launch's first update, slowest rank; with torch.compile it holds the compilation, short where "
        "torch finds it in its cache.",
    ),
    _time(
        "update_s_median",
        "second",
        "derived",
        "Median duration of the timed updates, each on its slowest rank; of a full window where extrapolated.",
    ),
    _time(
        "update_s_p05", "second", "derived", "5th percentile of the timed updates' durations, each on its slowest rank."
    ),
    _time(
        "update_s_p95",
        "second",
        "derived",
        "95th percentile of the timed updates' durations, each on its slowest rank.",
    ),
    _time(
        "segments",
        "segment",
        "same",
        "Segments of the timed part: stretches of whole updates between two waits for the device.",
        "int64",
    ),
    _time(
        "stop_reason",
        None,
        "rank0",
        "Why the timed part ended: precision (target met), cap (of time or samples reached) or fixed (length asked "
        "for).",
        "string",
    ),
    _time(
        "target_half_width",
        "ratio",
        "same",
        "Half-width, relative to the mean, that the preset aims at; null with a fixed length.",
    ),
    _time(
        "half_width",
        "ratio",
        "rank0",
        "Half of the 95 % interval of the mean update time / the mean, within this launch (only rounds show how much "
        "launches differ); null below three samples.",
    ),
    _time("lag1", None, "rank0", "Bias-corrected correlation of neighbouring samples, 0 to 0.95; null below three."),
    _time("spread", "ratio", "rank0", "Standard deviation of one sample / the mean; null below two samples."),
    _time(
        "micro_step_s",
        "second",
        "max",
        "Mean duration of a micro-step, without the first and the last of a window, on the rank whose full update "
        "takes longest; null unless updates are so long that micro-steps are the samples.",
    ),
    _time(
        "update_step_s",
        "second",
        "max",
        "Mean part of an update's duration that does not depend on its number of micro-steps, on the same rank as "
        "micro_step_s; null where that is null.",
    ),
    _time(
        "micro_step_rank_spread",
        "ratio",
        "same",
        "Mean duration of a micro-step on the slowest rank / on the fastest - 1, without a window's first and its last,"
        " in which ranks wait for each other; of the timed part where its samples are micro-steps, else of the memory "
        "pass. Null on one rank, below three micro-batches per update and where gradient_sync is every.",
    ),
    _time(
        "whole_update_s",
        "second",
        "max",
        "Mean duration of the whole updates that follow shortened windows to confirm what they tell, slowest rank; "
        "null where windows were not shortened, or measure.timeout_s left no room.",
    ),
    _time("data_wait_s", "second", "max", "Time that the timed part waited for input, worst rank."),
    _time("data_wait_share", "ratio", "derived", "data_wait_s / timed_s."),
    _time(
        "valid_tokens_per_s",
        "token/second",
        "derived",
        "valid_tokens / timed_s: all ranks, whole updates, of full windows where extrapolated; null unless the outcome "
        "is ok and the unit is the token.",
    ),
    _time(
        "units_per_s",
        "unit/second",
        "derived",
        "units / timed_s, as valid_tokens_per_s, which it equals where the unit is the token; what trials are ranked "
        "by where it is another.",
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
        "How time was measured: host_clock, cuda_events, or extrapolated from shortened windows by update_step_s + "
        "accumulation_steps x micro_step_s; where law_not_met is flagged, whole_update_s counts instead.",
        "string",
    ),
    _time("launch_s", "second", "launch", "Time from the request of the launch to the exit of its last process."),
    _time("threads_per_rank", "thread", "same", "CPU threads that torch used on each rank.", "int64"),
)
"""Time: seconds of the timed part, and rates over the same part."""
