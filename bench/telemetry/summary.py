"""Reduce the samples of a launch's GPUs to columns and flags. Pure: no NVML, no clock, no torch.

The timed part runs from the first edge of any rank to the last; the short pauses between its segments are inside.
Thresholds of flags: docs/method.md.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.telemetry.gpu import (
    CLOCK_SETTING,
    DROP_RATIO,
    HW_POWER_BRAKE,
    HW_THERMAL,
    LOW_RATIO,
    THERMAL_SHARE,
    TimedGpu,
    thousandth,
)
from bench.telemetry.memory import foreign_processes, outside_torch
from bench.telemetry.samples import GpuTrack, RankTiming, is_same_gpu
from bench.units import share_text

TELEMETRY_FLAG_SENTENCES: dict[str, str] = {
    "throttled_hw": "GPU hardware throttled (heat or power brake): not comparable",
    "throttled_thermal": (
        f"the driver throttled a GPU for heat for more than {share_text(THERMAL_SHARE)} of the timed part"
    ),
    "clock_drop": (
        f"the median clock of the timed part's last third is below {share_text(DROP_RATIO)} of the first third's"
    ),
    "clock_low": f"the median clock of the timed part is below {share_text(LOW_RATIO)} of the GPU's default clock",
    "hot_start": "before the launch a GPU was still over 3 degrees hotter than in the first launch's timed part",
    "gpu_shared": "another process used a GPU during the launch; the launch runs once more",
    "ecc_error": "uncorrectable memory error on a GPU during the launch",
    "nvml_missing": "NVML gave no data for a GPU of the launch, or not for the whole timed part",
}
"""Every flag that comes from telemetry, and what it means."""


@dataclass(frozen=True)
class Health:
    """State energy and health of one launch."""

    columns: dict[str, Any] = field(default_factory=dict)
    """Columns of the groups `energy and health` and `memory`; None where unknown."""
    flags: tuple[str, ...] = ()


NOT_WATCHED = Health()
"""Of a launch on a CPU."""


def summarise(
    tracks: Sequence[GpuTrack],
    ranks: Sequence[RankTiming],
    own_pids: Collection[int],
    marked: Collection[str] = (),
) -> Health:
    """Reduce the telemetry of one launch's GPUs.

    Args:
        tracks: The GPUs that were watched.
        ranks: What every rank says, in rank order; ranks that said nothing are there too.
        own_pids: Process ids that the ranks had.
        marked: Flags already known, such as hot_start.

    Returns:
        Columns over all GPUs of the launch, the worst one's where they differ, and every doubt, sorted. A figure that
        one of the GPUs does not tell is None.
    """
    found = [_track_of(rank, tracks) for rank in ranks]
    used = {track.uuid: track for track in found if track is not None}
    span = _span(ranks)
    gpus = [TimedGpu(track, span) for track in used.values()]
    others = [foreign_processes(track, own_pids, sum(one is track for one in found)) for track in used.values()]
    columns = _columns(gpus, others) if None not in found else {}
    columns |= outside_torch(list(zip(ranks, found, strict=True)), own_pids) if span and None not in found else {}
    flags = {flag for gpu in gpus for flag in gpu.flags()} | {*marked}
    if any(others):
        flags.add("gpu_shared")
    if None in found or any(not gpu.is_watched() for gpu in gpus):
        flags.add("nvml_missing")
    assert flags <= TELEMETRY_FLAG_SENTENCES.keys(), f"a flag without a sentence: {flags}"
    return Health(columns, tuple(sorted(flags)))


def _track_of(rank: RankTiming, tracks: Sequence[GpuTrack]) -> GpuTrack | None:
    return next((track for track in tracks if is_same_gpu(track.uuid, rank.gpu_uuid)), None)


def _span(ranks: Sequence[RankTiming]) -> tuple[float, float] | None:
    """Give the edges of the timed part [s]; None when a rank did not get to its end."""
    begins = [rank.timed_from_s for rank in ranks]
    ends = [rank.timed_to_s for rank in ranks]
    if not ranks or None in begins or None in ends:
        return None
    return min(s for s in begins if s is not None), max(s for s in ends if s is not None)


def _columns(gpus: Sequence[TimedGpu], others: Sequence[int | None]) -> dict[str, Any]:
    return {
        "joules_per_gpu": _over(statistics.fmean, [gpu.joules() for gpu in gpus]),
        "power_mean_w": _over(statistics.fmean, [gpu.power_w() for gpu in gpus]),
        "power_limit_w": _over(min, [thousandth(gpu.track.power_limit_mw) for gpu in gpus]),
        "sm_clock_median_mhz": _over(min, [gpu.clock(statistics.median) for gpu in gpus]),
        "sm_clock_min_mhz": _over(min, [gpu.clock(min) for gpu in gpus]),
        "sm_clock_default_mhz": _over(min, [gpu.track.sm_clock_default_mhz for gpu in gpus]),
        "sm_clock_max_mhz": _over(min, [gpu.track.sm_clock_max_mhz for gpu in gpus]),
        "persistence_mode": _over(all, [gpu.track.persistence_mode for gpu in gpus]),
        "temperature_start_c": _over(max, [gpu.temperature(0) for gpu in gpus]),
        "temperature_end_c": _over(max, [gpu.temperature(-1) for gpu in gpus]),
        "temperature_max_c": _over(max, [max(gpu.temperatures(), default=None) for gpu in gpus]),
        "hw_thermal_share": _over(max, [gpu.polled_share(HW_THERMAL) for gpu in gpus]),
        "hw_power_brake_share": _over(max, [gpu.polled_share(HW_POWER_BRAKE) for gpu in gpus]),
        "sw_thermal_share": _over(max, [gpu.thermal_share() for gpu in gpus]),
        "sw_power_cap_share": _over(max, [gpu.power_cap_share() for gpu in gpus]),
        "clock_setting_share": _over(max, [gpu.polled_share(CLOCK_SETTING) for gpu in gpus]),
        "throttle_source": _throttle_source(gpus),
        "ecc_uncorrected_errors": _over(sum, [gpu.ecc_errors() for gpu in gpus]),
        "foreign_processes": _over(max, others),
        "device_used_bytes": _over(max, [gpu.device_used_bytes() for gpu in gpus]),
        "telemetry_samples": _over(min, [len(gpu.window) for gpu in gpus]),
        "telemetry_gap_s": _over(max, [gpu.mean_gap_s() for gpu in gpus]),
    }


def _throttle_source(gpus: Sequence[TimedGpu]) -> str | None:
    """Name where the shares of software reasons come from: counters, polled, or mixed; None where one is unknown."""
    names = ("thermal_violation_ns", "power_violation_ns")
    is_counted = [gpu.counted_share(name) is not None for gpu in gpus for name in names]
    if not all(is_counted) and not all(gpu.values("reasons") for gpu in gpus):
        return None
    if any(is_counted):
        return "counters" if all(is_counted) else "mixed"
    return "polled" if is_counted else None


def _over(reduce: Callable[[list[Any]], Any], values: Sequence[Any]) -> Any:
    """Reduce the values of all GPUs; None when one of them is unknown."""
    return None if not values or any(value is None for value in values) else reduce(list(values))
