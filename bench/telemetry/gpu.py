"""One GPU over the timed part of a launch: energy, clocks, temperature and throttling, from its samples. Pure.

Thresholds of flags: docs/method.md.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence

from bench.telemetry.nvml import CALL_LIMIT_S
from bench.telemetry.samples import GpuSample, GpuTrack

ENERGY_LEAST_S = 5.0
"""Shortest timed part whose energy is reported: the counter steps every 0.1 s, which is 2 % of it [s]."""
THERMAL_SHARE = 0.01
DROP_RATIO = 0.97
LOW_RATIO = 0.75
EDGE_S = 1.0
"""A counter is interpolated at an edge only between samples at most this far from it [s]."""
NEAREST_S = 0.5
"""A timed part too short for a sample takes its temperature from one at most this far away [s]."""
SAMPLES_PER_THIRD = 3

CLOCK_SETTING, SW_POWER_CAP, SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE = 0x2, 0x4, 0x20, 0x40, 0x80
"""Bits of nvmlClocksEventReasons. 0x8, a hardware slowdown of no stated cause, is also set when clocks change states:
alone it is no evidence, and what it does to the clocks shows in them."""


class TimedGpu:
    """Hold one GPU's track, and the part of it that lies in the timed part."""

    def __init__(self, track: GpuTrack, span: tuple[float, float] | None) -> None:
        self.track = track
        self.span = span
        self.window: Sequence[GpuSample] = () if span is None else _within(track.samples, *span)

    def values(self, name: str) -> list[int]:
        """Give the samples of one figure in the timed part, in order."""
        return [value for sample in self.window if (value := getattr(sample, name)) is not None]

    def joules(self) -> float | None:
        """Give the energy of the timed part by the counter at its edges [J]."""
        if self.span is None or self.span[1] - self.span[0] < ENERGY_LEAST_S:
            return None
        return thousandth(self._counted("energy_mj"))

    def power_w(self) -> float | None:
        """Give the mean draw at the samples of the timed part [W]."""
        powers = self.values("power_mw")
        return statistics.fmean(powers) / 1000 if powers else None

    def clock(self, reduce: Callable[[list[int]], float]) -> float | None:
        """Reduce the clocks of the timed part [MHz]."""
        clocks = self.values("sm_clock_mhz")
        return float(reduce(clocks)) if clocks else None

    def temperatures(self) -> list[int]:
        """Give those of the timed part, in order; that next to one too short to hold any [degrees Celsius]."""
        told = self.values("temperature_c")
        felt = [sample for sample in self.track.samples if sample.temperature_c is not None]
        beside = None if told or self.span is None else _nearest(felt, *self.span)
        return told if beside is None or beside.temperature_c is None else [beside.temperature_c]

    def temperature(self, place: int) -> int | None:
        """Give the first or the last of the timed part [degrees Celsius]."""
        temperatures = self.temperatures()
        return temperatures[place] if temperatures else None

    def polled_share(self, bit: int) -> float | None:
        """Give the share of the timed part's samples that have a bit [ratio]."""
        masks = self.values("reasons")
        return sum(bool(mask & bit) for mask in masks) / len(masks) if masks else None

    def counted_share(self, name: str) -> float | None:
        """Give the share of the timed part by a counter of nanoseconds [ratio]."""
        counted = self._counted(name)
        if self.span is None or counted is None or self.span[1] <= self.span[0]:
            return None
        return min(1.0, counted / 1e9 / (self.span[1] - self.span[0]))

    def thermal_share(self) -> float | None:
        """Give the share of the timed part in which the driver held the clocks back for heat [ratio]."""
        counted = self.counted_share("thermal_violation_ns")
        return self.polled_share(SW_THERMAL) if counted is None else counted

    def power_cap_share(self) -> float | None:
        """Give the share of the timed part in which the power limit held the clocks back [ratio]."""
        counted = self.counted_share("power_violation_ns")
        return self.polled_share(SW_POWER_CAP) if counted is None else counted

    def ecc_errors(self) -> int | None:
        """Count the errors that came during the launch; None when the counter was reset."""
        counts = [
            sample.ecc_uncorrected
            for sample in (*_told(self.track.before), *self.track.samples)
            if sample.ecc_uncorrected is not None
        ]
        return counts[-1] - counts[0] if counts and _only_grows(counts) else None

    def device_used_bytes(self) -> int | None:
        """Give the most that was in use at a sample of the launch [bytes]."""
        return max((sample.used_bytes for sample in self.track.samples if sample.used_bytes is not None), default=None)

    def mean_gap_s(self) -> float | None:
        """Give the mean time between samples of the launch, which the driver's slowness decides [s]."""
        samples = self.track.samples
        return (samples[-1].monotonic_s - samples[0].monotonic_s) / (len(samples) - 1) if len(samples) > 1 else None

    def is_watched(self) -> bool:
        """Tell whether there are samples, and none is missing for long in the timed part where there is one."""
        if self.span is None or not self.track.samples:
            return bool(self.track.samples)
        patience_s = max(CALL_LIMIT_S, 2 * (self.mean_gap_s() or 0.0))
        moments_s = [self.span[0], *(sample.monotonic_s for sample in self.window), self.span[1]]
        gaps_s = [later - earlier for earlier, later in itertools.pairwise(moments_s)]
        return bool(self.window) and max(gaps_s) <= patience_s

    def flags(self) -> list[str]:
        """Name every doubt about this GPU."""
        found = {
            "throttled_hw": any(mask & (HW_THERMAL | HW_POWER_BRAKE) for mask in self.values("reasons")),
            "throttled_thermal": (self.thermal_share() or 0.0) > THERMAL_SHARE,
            "clock_drop": self._has_dropped(),
            "clock_low": self._is_low(),
            "ecc_error": (self.ecc_errors() or 0) > 0,
        }
        return [flag for flag, is_raised in found.items() if is_raised]

    def _has_dropped(self) -> bool:
        clocks = self.values("sm_clock_mhz")
        third = len(clocks) // 3
        if third < SAMPLES_PER_THIRD:
            return False
        return statistics.median(clocks[-third:]) < DROP_RATIO * statistics.median(clocks[:third])

    def _is_low(self) -> bool:
        median = self.clock(statistics.median)
        normal = self.track.sm_clock_default_mhz or self.track.sm_clock_max_mhz
        return median is not None and normal is not None and median < LOW_RATIO * normal

    def _counted(self, name: str) -> float | None:
        """Give what a counter gained between the edges; None without samples around both, or when it was reset."""
        if self.span is None:
            return None
        begin, end = (_counter_at(self.track.samples, name, edge) for edge in self.span)
        if begin is None or end is None or not _only_grows([begin, *self.values(name), end]):
            return None
        return end - begin


def _within(samples: Sequence[GpuSample], from_s: float, to_s: float) -> Sequence[GpuSample]:
    """Give the samples between the edges."""
    return [sample for sample in samples if from_s <= sample.monotonic_s <= to_s]


def _nearest(samples: Sequence[GpuSample], from_s: float, to_s: float) -> GpuSample | None:
    """Give the sample that lies nearest to a span, if it is near."""
    near = _within(samples, from_s - NEAREST_S, to_s + NEAREST_S)
    return min(near, key=lambda sample: max(from_s - sample.monotonic_s, sample.monotonic_s - to_s), default=None)


def _counter_at(samples: Sequence[GpuSample], name: str, edge_s: float) -> float | None:
    """Interpolate a counter between the samples on both sides of an edge."""
    told = [(sample.monotonic_s, value) for sample in samples if (value := getattr(sample, name)) is not None]
    before = next(((at, value) for at, value in reversed(told) if edge_s - EDGE_S <= at <= edge_s), None)
    after = next(((at, value) for at, value in told if edge_s <= at <= edge_s + EDGE_S), None)
    if before is None or after is None:
        return None
    (begin_s, low), (end_s, high) = before, after
    return float(low) if end_s == begin_s else low + (high - low) * (edge_s - begin_s) / (end_s - begin_s)


def _only_grows(counts: Sequence[float]) -> bool:
    """Tell whether a counter was never reset."""
    return all(earlier <= later for earlier, later in itertools.pairwise(counts))


def thousandth(value: float | None) -> float | None:
    """Turn milliwatts into watts, millijoules into joules."""
    return None if value is None else value / 1000


def _told(sample: GpuSample | None) -> tuple[GpuSample, ...]:
    return () if sample is None else (sample,)
