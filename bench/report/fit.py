"""Decide whether a configuration fits its device with room to spare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.report.points import Row
from bench.units import format_bytes

HEADROOM = 0.05
"""Share of the capacity that must stay free, unless asked otherwise."""


@dataclass(frozen=True)
class Fit:
    """State whether the worst launch of a configuration leaves enough of the device free."""

    fits: bool | None
    """Whether it fits; null when needed or capacity bytes are unknown."""
    needed_bytes: int | None
    """What the worst rank took from the device; on a CPU all ranks together, as they share the host [bytes]."""
    capacity_bytes: int | None
    """Memory of the smallest device [bytes]."""
    words: str
    """The judgement in words, with what it leaves out."""


def fit_of(launches: Sequence[Row], headroom: float) -> Fit:
    """Judge the launches of one configuration, the worst of which decides.

    Fits: no allocation had to be retried, and reserved bytes + bytes outside torch <= (1 - headroom) x capacity.
    On a CPU the high-water mark of resident memory stands for both, times the ranks.
    """
    ok = [launch for launch in launches if launch["outcome"] == "ok"]
    retries = sum(launch.get("alloc_retries") or 0 for launch in ok)
    capacity = min((c for launch in ok if (c := launch.get("device_capacity_bytes"))), default=None)
    needs = [need for launch in ok if (need := _needed(launch)) is not None]
    needed = max(needs, default=None)
    if retries:
        return Fit(False, needed, capacity, f"{retries} allocations had to be retried: the memory was full")
    if needed is None or not capacity:
        return Fit(None, needed, capacity, "fit not judged: bytes in use or capacity unknown")
    spare = capacity - needed
    left_out = ""
    if any(launch.get("device") != "cpu" and launch.get("outside_torch_bytes") is None for launch in ok):
        left_out = ", memory outside torch not measured"
    words = f"{format_bytes(needed)} of {format_bytes(capacity)} in use, {format_bytes(spare)} spare{left_out}"
    if needed > (1 - headroom) * capacity:
        return Fit(False, needed, capacity, f"{words}: less than the {100 * headroom:g} % asked for")
    return Fit(True, needed, capacity, words)


def _needed(launch: Row) -> int | None:
    if launch.get("device") == "cpu":
        resident, ranks = launch.get("host_peak_rss_bytes"), launch.get("world_size")
        return None if resident is None or ranks is None else int(resident * ranks)
    reserved = launch.get("peak_reserved_bytes")
    return None if reserved is None else int(reserved + (launch.get("outside_torch_bytes") or 0))
