"""Columns of energy and health, told by the GPU's driver while the launch ran."""

from __future__ import annotations

from bench.record.column_types import Column, Kind, Rule


def _health(name: str, unit: str | None, sentence: str, kind: Kind = "float64", rule: Rule = "launch") -> Column:
    return Column(name, kind, unit, "energy and health", rule, sentence)


HEALTH: tuple[Column, ...] = (
    _health(
        "joules_per_gpu",
        "joule",
        "Energy of one GPU from the first edge of the timed part to the last, by the driver's counter, mean of the "
        "launch's GPUs; the short pauses between segments are inside. Null below 5 s, on a MIG device and without a "
        "counter; never an estimate.",
    ),
    _health(
        "joules_per_valid_token",
        "joule/token",
        "joules_per_gpu x world_size / valid_tokens: all GPUs, same timed part; null where windows were shortened and "
        "unless the outcome is ok.",
        rule="derived",
    ),
    _health("power_mean_w", "watt", "Mean draw of one GPU at the samples of the timed part, mean of the GPUs."),
    _health("power_limit_w", "watt", "Enforced power limit of a GPU, the lowest."),
    _health("sm_clock_median_mhz", "megahertz", "Median clock of the multiprocessors in the timed part, slowest GPU."),
    _health("sm_clock_min_mhz", "megahertz", "Least clock of the multiprocessors in the timed part, slowest GPU."),
    _health(
        "sm_clock_default_mhz",
        "megahertz",
        "Clock that applications get by default, lowest of the GPUs; null where there is no such setting.",
        "int64",
    ),
    _health("sm_clock_max_mhz", "megahertz", "Highest clock of the multiprocessors, lowest of the GPUs.", "int64"),
    _health(
        "temperature_start_c",
        "degree Celsius",
        "Temperature at the first sample of the timed part, hottest GPU; where it holds none, at the nearest within "
        "0.5 s, as for the two below.",
        "int64",
    ),
    _health(
        "temperature_end_c", "degree Celsius", "Temperature at the last sample of the timed part, hottest GPU.", "int64"
    ),
    _health("temperature_max_c", "degree Celsius", "Highest temperature in the timed part, hottest GPU.", "int64"),
    _health(
        "hw_thermal_share",
        "ratio",
        "Share of the timed part's samples in which the hardware held the clocks back for heat, worst GPU.",
    ),
    _health(
        "hw_power_brake_share",
        "ratio",
        "Share of the timed part's samples in which an external power brake held the clocks back, worst GPU.",
    ),
    _health(
        "sw_thermal_share",
        "ratio",
        "Share of the timed part in which the driver held the clocks back for heat, worst GPU; see throttle_source.",
    ),
    _health(
        "sw_power_cap_share",
        "ratio",
        "Share of the timed part in which the power limit held the clocks back, worst GPU; see throttle_source.",
    ),
    _health(
        "clock_setting_share",
        "ratio",
        "Share of the timed part's samples in which a clock that somebody set was the limit, worst GPU; the driver "
        "has no other way to tell that clocks are locked.",
    ),
    _health(
        "throttle_source",
        None,
        "Where the two shares of the driver's own reasons come from: counters, polled where a GPU has none, or mixed "
        "where some do and some do not.",
        "string",
    ),
    _health(
        "ecc_uncorrected_errors",
        "error",
        "Errors of the GPUs' memory during the launch that could not be corrected, all GPUs; null without ECC.",
        "int64",
    ),
    _health(
        "foreign_processes",
        "process",
        "Most processes of others that computed on one of the GPUs at a sample just before or during the launch; null "
        "where the driver lists none, not even ours.",
        "int64",
    ),
    _health(
        "telemetry_samples",
        "sample",
        "Samples of a GPU in the timed part, fewest of any GPU; 0 where it was too short to hold one.",
        "int64",
    ),
    _health("telemetry_gap_s", "second", "Mean time between samples over the launch, slowest GPU."),
    _health("telemetry_problem", None, "Why the driver did not tell how the GPUs were; null where it did.", "string"),
)
"""Energy and health: what NVML tells of the launch's GPUs; null on a CPU, and each figure null where it is not told."""
