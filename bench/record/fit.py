"""Whether what a launch took leaves enough of its device free: one rule, for the row and for a recommendation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

HEADROOM = 0.05
"""Share of the capacity that must stay free, unless asked otherwise."""

FIT_COLUMNS = (
    *("outcome", "device", "world_size", "device_capacity_bytes", "alloc_retries", "peak_reserved_bytes"),
    *("outside_torch_bytes", "outside_torch_at_most_bytes", "host_peak_rss_bytes"),
)
"""What the fit of a launch is judged by, in the order in which `judge_fit` takes it."""


class LaunchFit(NamedTuple):
    """Hold what one launch says about its fit."""

    fits: bool | None
    """Whether enough stayed free; null when that is not known."""
    needed_bytes: int | None
    """What had to fit: reserved and outside torch, worst rank; on a CPU all ranks together [bytes]."""
    is_bound: bool
    """Whether memory outside torch is known as a bound alone, with other processes in it."""


def judge_fit(
    headroom: float,
    outcome: str | None,
    device: str | None,
    ranks: int | None,
    capacity: int | None,
    retries: int | None,
    reserved: int | None,
    outside: int | None,
    outside_at_most: int | None,
    resident: int | None,
) -> LaunchFit:
    """Judge one launch; what ran out of memory does not fit, what ended in another way says nothing.

    Fits: no allocation had to be retried, and reserved bytes + bytes outside torch <= (1 - headroom) x capacity, on the
    worst rank. If bytes outside torch are only bounded, meeting the bound proves the fit; exceeding it proves
    nothing, since other processes are in it. Without even a bound, reserved bytes can only disprove the fit.

    On a CPU the ranks share the host: the worst rank's high-water mark of resident memory, times the ranks. Pages that
    ranks share count once a rank, which errs on the safe side.
    """
    if outcome == "oom":
        return LaunchFit(False, None, False)
    if device == "cpu":
        reserved = None if resident is None or ranks is None else int(resident * ranks)
        outside = 0
    if outcome != "ok":
        return LaunchFit(None, None, False)
    is_bound = outside is None
    on_top = outside_at_most if outside is None else outside
    needed = None if reserved is None or on_top is None else int(reserved + on_top)
    limit = limit_bytes(capacity or math.inf, headroom)
    if retries or (reserved or 0) > limit:
        return LaunchFit(False, needed, is_bound)
    if needed is None or not capacity or (is_bound and needed > limit):
        return LaunchFit(None, needed, is_bound)
    return LaunchFit(needed <= limit, needed, is_bound)


def limit_bytes(capacity: float, headroom: float = HEADROOM) -> float:
    """Give what a launch may take of a device of so many bytes [bytes]."""
    return (1 - headroom) * capacity


def launch_fit(row: Mapping[str, Any], headroom: float = HEADROOM) -> LaunchFit:
    """Judge the launch of one row by its columns."""
    return judge_fit(headroom, *map(row.get, FIT_COLUMNS))


def compared_bytes(row: Mapping[str, Any]) -> int | None:
    """Give the bytes that do not fit once they exceed `limit_bytes`; null when not known [bytes, worst rank].

    Where memory outside torch is known as a bound alone, reserved bytes: only they can be too many for certain.
    """
    fit = launch_fit(row)
    return row.get("peak_reserved_bytes") if fit.is_bound else fit.needed_bytes


def derive_fit(row: Mapping[str, Any]) -> dict[str, Any]:
    """Give the derived columns of the fit."""
    fit, capacity = launch_fit(row), row.get("device_capacity_bytes")
    spare = None if fit.needed_bytes is None or not capacity else capacity - fit.needed_bytes
    return {
        "fits": fit.fits,
        "headroom_bytes": spare,
        "headroom_share": None if spare is None or not capacity else spare / capacity,
    }
