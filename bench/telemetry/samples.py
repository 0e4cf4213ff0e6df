"""What is known of the GPUs of one launch: samples over time, and what its ranks report. No NVML, no torch.

Any figure may be missing, from one sample or from all: then it is None, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.telemetry.nvml import NvmlProcess


@dataclass(frozen=True, slots=True)
class GpuSample:
    """State one GPU at one moment. Memory, processes and ECC errors are asked less often than the rest."""

    monotonic_s: float
    """When it was asked, on the machine's monotonic clock [s]."""
    energy_mj: int | None = None
    """Energy since the driver was loaded; steps about ten times a second [mJ]."""
    power_mw: int | None = None
    """Draw of the board, on most GPUs the mean of the last second [mW]."""
    sm_clock_mhz: int | None = None
    temperature_c: int | None = None
    reasons: int | None = None
    """Bit mask of what holds the clocks back now (nvmlClocksEventReasons)."""
    power_violation_ns: int | None = None
    """Time for which a power limit held the clocks back, since the driver was loaded [ns]."""
    thermal_violation_ns: int | None = None
    """The same for a thermal limit [ns]."""
    ecc_uncorrected: int | None = None
    """Memory errors that could not be corrected, since the driver was loaded."""
    used_bytes: int | None = None
    """By every process on the device, without what the driver keeps for itself [bytes]."""
    processes: tuple[NvmlProcess, ...] | None = None
    """Processes that compute on it."""

    @property
    def is_empty(self) -> bool:
        """Tell whether the sample holds no figure at all."""
        return all(getattr(self, name) is None for name in self.__slots__ if name != "monotonic_s")


@dataclass(frozen=True)
class GpuTrack:
    """Hold the telemetry of one GPU over one launch."""

    uuid: str
    samples: Sequence[GpuSample] = ()
    """In order of time; empty samples are left out."""
    before: GpuSample | None = None
    """Taken before the launch began; None when there was none."""
    power_limit_mw: int | None = None
    """Limit that is enforced [mW]."""
    sm_clock_default_mhz: int | None = None
    """Clock that applications get unless they ask for another."""
    sm_clock_max_mhz: int | None = None
    persistence_mode: bool | None = None
    """Whether the driver keeps the GPU ready while nobody uses it."""


@dataclass(frozen=True)
class RankTiming:
    """State what one rank reports of itself, to be compared with the samples of its GPU."""

    pid: int | None = None
    """Process id; in a container NVML may know it under another."""
    gpu_uuid: str | None = None
    timed_from_s: float | None = None
    """First edge of the timed part, on the machine's monotonic clock; None when the launch did not get there [s]."""
    timed_to_s: float | None = None
    """Last edge of the timed part [s]."""
    reserved_bytes: int | None = None
    """What the caching allocator held at the last edge [bytes]."""
    held_from_s: float | None = None
    """Since when it held no more than that, on the machine's monotonic clock; None as `timed_from_s` [s]."""
    held_to_s: float | None = None
    """Until when [s]."""


def is_same_gpu(one: str | None, other: str | None) -> bool:
    """Tell whether two UUIDs mean one device: torch writes GPU- before that of a MIG device too."""
    return one is not None and other is not None and _bare(one) == _bare(other)


def _bare(uuid: str) -> str:
    return uuid.removeprefix("GPU-").removeprefix("MIG-").lower()
