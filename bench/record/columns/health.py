"""Columns of energy and health, told by the GPU's driver while the launch ran."""

from __future__ import annotations

from bench.record.column_types import Column, Kind, Rule


def _health(name: str, unit: str | None, sentence: str, kind: Kind = "float64", rule: Rule = "launch") -> Column:
    return Column(name, kind, unit, "energy and health", rule, sentence)


HEALTH: tuple[Column, ...] = (
    _health(
        "joules_per_gpu",
        "joule",
        "Energy of one GPU from the first edge of the timed part to the last, by the GPU driver's counter, mean of "
        "the launch's GPUs; it includes the short pauses between segments. Null below 5 s, on a MIG device and "
        "without a counter; never an estimate.",
    ),
    _health(
        "joules_per_valid_token",
        "joule/token",
        "joules_per_gpu x world_size / valid_tokens: all GPUs, same timed part; null where windows were shortened or "
        "the outcome is not ok.",
        rule="derived",
    ),
    _health("power_mean_w", "watt", "Mean power of one GPU over the samples of the timed part, mean of the GPUs."),
    _health("power_limit_w", "watt", "Enforced power limit, lowest of the GPUs."),
    _health("sm_clock_median_mhz", "megahertz", "Median clock of the multiprocessors in the timed part, slowest GPU."),
    _health("sm_clock_min_mhz", "megahertz", "Lowest clock of the multiprocessors in the timed part, slowest GPU."),
    _health(
        "sm_clock_default_mhz",
        "megahertz",
        "Default application clock, lowest of the GPUs; null where there is no such setting.",
        "int64",
    ),
    _health(
        "sm_clock_max_mhz", "megahertz", "Highest clock that the multiprocessors allow, lowest of the GPUs.", "int64"
    ),
    _health(
        "persistence_mode",
        None,
        "Whether the GPU driver keeps the GPUs ready while nobody uses them, all of the GPUs; if not, each start of a "
        "launch takes seconds longer.",
        "bool",
    ),
    _health(
        "temperature_start_c",
        "degree Celsius",
        "Temperature at the first sample of the timed part, hottest GPU; if it has no sample, at the nearest within "
        "0.5 s, as in the two columns below.",
        "int64",
    ),
    _health(
        "temperature_end_c", "degree Celsius", "Temperature at the last sample of the timed part, hottest GPU.", "int64"
    ),
    _health("temperature_max_c", "degree Celsius", "Highest temperature in the timed part, hottest GPU.", "int64"),
    _health(
        "hw_thermal_share",
        "ratio",
        "Share of the timed part's samples in which the hardware slowed the clocks because of heat, worst GPU.",
    ),
    _health(
        "hw_power_brake_share",
        "ratio",
        "Share of the timed part's samples in which an external power brake slowed the clocks, worst GPU.",
    ),
    _health(
        "sw_thermal_share",
        "ratio",
        "Share of the timed part in which the GPU driver slowed the clocks because of heat, worst GPU; see "
        "throttle_source.",
    ),
    _health(
        "sw_power_cap_share",
        "ratio",
        "Share of the timed part in which the power limit slowed the clocks, worst GPU; see throttle_source.",
    ),
    _health(
        "clock_setting_share",
        "ratio",
        "Share of the timed part's samples in which the clock was limited by a setting, worst GPU; the GPU driver "
        "reports locked clocks in no other way.",
    ),
    _health(
        "throttle_source",
        None,
        "Source of sw_thermal_share and sw_power_cap_share: counters, polled where the GPUs have no counters, or "
        "mixed where only some have.",
        "string",
    ),
    _health(
        "ecc_uncorrected_errors",
        "error",
        "Uncorrectable errors of the GPUs' memory during the launch, all GPUs; null without ECC.",
        "int64",
    ),
    _health(
        "foreign_processes",
        "process",
        "Most processes of others that computed on one GPU, at any sample during the launch or just before it; null "
        "where the GPU driver lists no process, not even ours.",
        "int64",
    ),
    _health(
        "telemetry_samples",
        "sample",
        "Samples in the timed part, fewest of any GPU; 0 if it was too short to hold one.",
        "int64",
    ),
    _health("telemetry_gap_s", "second", "Mean time between samples of the launch, slowest GPU."),
    _health(
        "telemetry_problem",
        None,
        "Why the GPU driver did not report the state of the GPUs; null where it did.",
        "string",
    ),
)
"""Energy and health: what NVML tells of the launch's GPUs; null on a CPU, and each figure null where it is not told."""
