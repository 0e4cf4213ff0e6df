"""Decide whether a configuration fits its device with room to spare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.record.fit import FIT_COLUMNS, HEADROOM, LaunchFit, judge_fit, launch_fit
from bench.report.launch_rows import Row, column_of
from bench.units import format_bytes

__all__ = ["HEADROOM", "NOT_JUDGED", "Fit", "fit_of", "fits_of"]

NOT_JUDGED = "fit not judged: "
"""How the words begin where it is not known whether a configuration fits."""


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
    """Judge the launches of one configuration, the worst of which decides; the rule is `bench.record.fit`'s."""
    ok = [launch for launch in launches if launch["outcome"] == "ok"]
    judged = [launch_fit(launch, headroom) for launch in ok]
    verdicts = {fit.fits for fit in judged}
    fits = False if False in verdicts else None if None in verdicts or not judged else True
    capacity = min((c for launch in ok if (c := launch.get("device_capacity_bytes"))), default=None)
    needed = max((fit.needed_bytes for fit in judged if fit.needed_bytes is not None), default=None)
    if retries := sum(launch.get("alloc_retries") or 0 for launch in ok):
        return Fit(False, needed, capacity, f"{retries} allocations had to be retried: the memory was full")
    return Fit(fits, needed, capacity, _words(ok, judged, fits, needed, capacity, headroom))


def _words(
    ok: Sequence[Row],
    judged: Sequence[LaunchFit],
    fits: bool | None,
    needed: int | None,
    capacity: int | None,
    headroom: float,
) -> str:
    asked_for = f"less than the {100 * headroom:g} % headroom asked for"
    reserved = max((r for launch in ok if (r := launch.get("peak_reserved_bytes")) is not None), default=None)
    if capacity is None or (needed is None and reserved is None):
        return f"{NOT_JUDGED}bytes in use or capacity unknown"
    if needed is None:
        words = f"{format_bytes(reserved)} of {format_bytes(capacity)} reserved, memory outside torch not measured"
        return f"{words}: {asked_for} is free" if fits is False else f"{NOT_JUDGED}{words}"
    words = f"{format_bytes(needed)} of {format_bytes(capacity)} in use, {format_bytes(capacity - needed)} free"
    if any(fit.is_bound for fit in judged):
        words += ", other processes included"
    if fits is None:
        return f"{NOT_JUDGED}{words}"
    return words if fits else f"{words}, {asked_for}"


def fits_of(rows: Sequence[Row], headroom: float) -> list[bool | None]:
    """Say of each launch alone whether it fits, null where that is not known; by columns, so fast."""
    columns = (column_of(rows, name) for name in FIT_COLUMNS)
    return [judge_fit(headroom, *values).fits for values in zip(*columns, strict=True)]
