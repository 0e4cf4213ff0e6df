"""Compare the results of this machine with reference results of another one: is this machine slow?

The two were measured at different times, so nothing can be paired: a round's mean over the configurations that both
measured is one observation, and rounds of the two sides are compared as they stand.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bench.decide.references import find_reference, reference_folders
from bench.errors import BenchError
from bench.report.configurations import Block, Configuration, configurations_of
from bench.report.launches import load_launches
from bench.report.machines import (
    SOFTWARE,
    differences,
    facts_that_differ,
    is_like_hardware,
    machine_key,
    thread_differences,
    why_not_the_same_work,
)
from bench.report.points import Row
from bench.report.what_changed import never_equal

NORMAL_RANGE = 0.05
"""Machines of one model differ by a few percent for good: within this nothing is called slow or fast."""

Word = Literal["slow", "normal", "fast", "unclear", "other hardware", "other software", "other threads", "other method"]

_DETAILS_OF_A_DEVICE = ("device", "cpu_threads_per_rank")
"""Settings that may differ where the same training is compared on another kind of device."""
_SOFTWARE = tuple(name for name in SOFTWARE if name != "measurement_version")


@dataclass(frozen=True)
class Shared:
    """Hold one configuration that both machines measured."""

    here: Configuration
    """Its launches on this machine."""
    there: Configuration
    """Its launches on the reference machine."""
    ratio: float
    """valid_tokens_per_s of this machine / the reference, geometric means over rounds."""
    ratio_low: float | None
    """Lower end of its 95 % interval; null with fewer than two rounds on either side."""
    ratio_high: float | None
    """Upper end of its 95 % interval; null with fewer than two rounds on either side."""

    @property
    def peak_change_bytes(self) -> int | None:
        """Give peak allocated bytes here less there, worst rank; null when either is unknown."""
        here, there = self.here.peak_bytes, self.there.peak_bytes
        return None if here is None or there is None else here - there


@dataclass(frozen=True)
class ReferenceComparison:
    """Hold this machine beside a reference."""

    name: str
    """Name of the reference."""
    path: Path
    """Where it is."""
    here: Row
    """A row of this machine, for its facts: the newest."""
    there: Row
    """A row of the reference, for its facts."""
    shared: tuple[Shared, ...]
    """The configurations that both measured, in the order of this machine's results."""
    lost: tuple[Configuration, ...]
    """Configurations that run on the reference machine, and were run here without a speed."""
    word: Word
    """What may be said of this machine."""
    ratio: float
    """valid_tokens_per_s here / there: geometric mean over the shared configurations."""
    ratio_low: float | None
    """Lower end of its 95 % interval; null without two whole rounds on both sides."""
    ratio_high: float | None
    """Upper end of its 95 % interval; null without two whole rounds on both sides."""
    rounds_here: int
    """Rounds of this machine in which every shared configuration was measured."""
    rounds_there: int
    """The same of the reference."""
    is_like_hardware: bool
    """Whether GPU, or CPU and number of its cores, are of the same model."""
    is_forced: bool
    """Whether results of unlike versions of the method were compared because the user insisted."""
    differing: tuple[str, ...]
    """Facts of machine and software that differ, in words."""
    notes: tuple[str, ...]
    """What else must be known."""


def compare_with_reference(rows: Sequence[Row], name: str | None, force: bool = False) -> ReferenceComparison:
    """Compare the newest results of one machine with a reference.

    Args:
        rows: What `load_launches` gave.
        name: Name or path of the reference; null takes the one that shares the most configurations, one of the same
            hardware first.
        force: Compare also what was measured by another version of the method.

    Raises:
        BenchError: There is no such reference, or nothing in it may be compared; says why.
        StorageError: The reference is damaged.
    """
    newest = _newest(rows)
    if name is not None:
        path = find_reference(name)
        return _compare(newest, path.name if path.is_dir() else path.stem, path, load_launches([path]), force)
    return _best(newest, force)


def _best(newest: Sequence[Row], force: bool) -> ReferenceComparison:
    known = reference_folders()
    if not known:
        raise BenchError("--reference: none is installed here; give the path of a results folder.")
    made, faults = [], []
    for name, path in known.items():
        try:
            made.append(_compare(newest, name, path, load_launches([path]), force))
        except BenchError as fault:
            faults.append(str(fault))
    if not made:
        raise BenchError("\n".join(["no reference is comparable with these results:", *faults]))
    return max(made, key=lambda one: (one.is_like_hardware, len(one.shared)))


def _newest(rows: Sequence[Row]) -> list[Row]:
    """Take what the machine of the newest launch measured last of each configuration."""
    ok = [row for row in rows if row["outcome"] == "ok"]
    if not ok:
        raise BenchError("nothing to compare: no launch in these results is ok.")
    host = max(ok, key=_when).get("hostname")
    last: dict[Any, Row] = {}
    for row in ok:
        if row.get("hostname") == host and _when(row) >= _when(last.get(row["trial_id"], {})):
            last[row["trial_id"]] = row
    kept = []
    for row in rows:
        newest = last.get(row["trial_id"])
        if newest is None:
            kept += [row] if row.get("hostname") in (host, None) else []
        elif _series(row) == _series(newest) and (row["outcome"] != "ok" or _machine(row) == _machine(newest)):
            kept.append(row)
    return kept


def _when(row: Row) -> str:
    return str(row.get("started_utc") or "")


def _machine(row: Row) -> tuple[Any, ...]:
    return (*machine_key(row), row.get("threads_per_rank") if row.get("device") == "cpu" else None)


def _series(row: Row) -> tuple[Any, ...]:
    return (row.get("source"), row.get("sweep"))


def _compare(rows: Sequence[Row], name: str, path: Path, others: Sequence[Row], force: bool) -> ReferenceComparison:
    here, there = configurations_of(rows), configurations_of(others)
    pairs = _matched(here, there)
    if not pairs:
        raise BenchError(_nothing_shared(name, here, there))
    measured = [(one, other) for one, other in pairs if one.speeds and other.speeds]
    faults = {id(one): why_not_the_same_work(one.row, other.row, force) for one, other in measured}
    usable = [(one, other) for one, other in measured if not faults[id(one)]]
    if not usable:
        reasons = dict.fromkeys(reason for one, _ in measured for reason in faults[id(one)])
        why = "; ".join(reasons) or "none of the shared configurations has a speed on both sides"
        raise BenchError(f"{name} is not comparable with these results: {why}.")
    ours, theirs = _launches_of(one for one, _ in usable), _launches_of(other for _, other in usable)
    if ours <= theirs:
        raise BenchError(f"these are the results of {name} itself, not of this machine. Run its sweep.yaml here first.")
    newest = max((one.row for one, _ in usable), key=_when)
    reference = usable[0][1].row
    overall, rounds = _overall(usable)
    like = is_like_hardware(newest, reference)
    rows_of_pairs = [(one.row, other.row) for one, other in usable]
    forced = any(one.get("measurement_version") != other.get("measurement_version") for one, other in rows_of_pairs)
    lost = [one for one, other in pairs if other.speeds and not one.speeds and one.was_run]
    refused = dict.fromkeys(reason for one, _ in measured for reason in faults[id(one)])
    notes = [f"left out: {reason}" for reason in refused]
    notes += ["FORCED: different measurement versions"] * forced + list(_doubts(usable))
    if ours & theirs:
        notes.append(
            "these results include launches of the reference itself, so the ratio means nothing: run the sweep here"
        )
    return ReferenceComparison(
        name=name,
        path=path,
        here=newest,
        there=reference,
        shared=tuple(_shared(one, other) for one, other in usable),
        lost=tuple(lost),
        word=_other(like, forced, rows_of_pairs) or _word(overall[1], overall[2]),
        ratio=overall[0],
        ratio_low=overall[1],
        ratio_high=overall[2],
        rounds_here=rounds[0],
        rounds_there=rounds[1],
        is_like_hardware=like,
        is_forced=forced,
        differing=tuple(facts_that_differ(newest, reference)),
        notes=tuple(notes),
    )


def _launches_of(configurations: Iterable[Configuration]) -> set[tuple[Any, ...]]:
    names = ("trial_id", "round", "attempt", "hostname", "started_utc", "timed_s")
    return {tuple(row.get(name) for name in names) for one in configurations for row in one.launches}


def _doubts(pairs: Sequence[tuple[Configuration, Configuration]]) -> Iterator[str]:
    """Say what was noticed of the launches of either side."""
    for place, name in enumerate(("here", "in the reference")):
        launches = [row for pair in pairs for row in pair[place].launches if row["outcome"] == "ok"]
        if flags := sorted({flag for row in launches for flag in row.get("flags") or []}):
            yield f"flags {name}: {', '.join(flags)}"
        if any(row.get("proof") == "FAIL" for row in launches):
            yield f"a proof failed {name}: an update is not the global batch's"


def _other(is_like: bool, forced: bool, pairs: Sequence[tuple[Row, Row]]) -> Word | None:
    """Say what besides the machine differs and may be why; null where nothing does."""
    if not is_like:
        return "other hardware"
    if forced:
        return "other method"
    if any(differences(one, other, _SOFTWARE) for one, other in pairs):
        return "other software"
    return "other threads" if any(thread_differences(one, other) for one, other in pairs) else None


def _word(low: float | None, high: float | None) -> Word:
    if low is None or high is None:
        return "unclear"
    if high < 1 - NORMAL_RANGE:
        return "slow"
    if low > 1 + NORMAL_RANGE:
        return "fast"
    return "normal" if low > 1 - NORMAL_RANGE else "unclear"


def _matched(
    here: Sequence[Configuration], there: Sequence[Configuration]
) -> list[tuple[Configuration, Configuration]]:
    """Pair configurations by trial id where that can be, else by their settings.

    Those of the device count only on the same kind of device.
    """
    by_id = {one.row["trial_id"]: one for one in reversed(there)}
    by_settings = {_settings(one.row): one for one in reversed(there)}
    loosely = {(one.row.get("device"), _settings(one.row, _DETAILS_OF_A_DEVICE)): one for one in reversed(there)}
    devices = {one.row.get("device"): None for one in there}
    pairs = []
    for one in here:
        others = [device for device in devices if device != one.row.get("device")]
        keys = [(device, _settings(one.row, _DETAILS_OF_A_DEVICE)) for device in others]
        found = [by_id.get(one.row["trial_id"]), by_settings.get(_settings(one.row)), *map(loosely.get, keys)]
        pairs += [(one, other) for other in found if other is not None][:1]
    return pairs


def _settings(row: Row, leave_out: Sequence[str] = ()) -> str:
    try:
        settings = json.loads(row.get("config_json") or "{}")
    except ValueError:
        settings = None  # of a foreign tool: only the trial id can tell
    if not isinstance(settings, dict) or not settings:
        settings = {"trial_id": row["trial_id"]}
    return json.dumps({key: settings[key] for key in settings if key not in leave_out}, sort_keys=True)


def _nothing_shared(name: str, here: Sequence[Configuration], there: Sequence[Configuration]) -> str:
    """Say which settings are never the same, since those are why nothing is shared."""
    devices = {one.row.get("device") for side in (here, there) for one in side}
    details = _DETAILS_OF_A_DEVICE if len(devices) > 1 else ("device",)
    apart = never_equal([one.row for one in here], [one.row for one in there], details)
    reasons = [f"{column} is {mine} here, {its} there" for column, (mine, its) in apart.items()]
    why = "; ".join(reasons) or "each setting occurs, but never together"
    return f"{name} and these results have no configuration in common: {why}. Run its sweep.yaml here first."


def _shared(one: Configuration, other: Configuration) -> Shared:
    from bench.statistics.unpaired import unpaired_interval

    mine, its = ([math.log(speed) for speed in side.speeds.values()] for side in (one, other))
    ratio = math.exp(sum(mine) / len(mine) - sum(its) / len(its))
    if min(len(mine), len(its)) < 2:
        return Shared(one, other, ratio, None, None)
    interval = unpaired_interval(its, mine)
    return Shared(one, other, ratio, interval.ratio_low, interval.ratio_high)


def _overall(
    pairs: Sequence[tuple[Configuration, Configuration]],
) -> tuple[tuple[float, float | None, float | None], tuple[int, int]]:
    """Give the ratio over all with its interval, and the whole rounds of each side."""
    from bench.statistics.unpaired import unpaired_interval

    mine, its = (_whole_rounds([pair[side] for pair in pairs]) for side in (0, 1))
    rounds = (len(mine), len(its))
    if min(rounds) >= 2:
        interval = unpaired_interval(its, mine)
        return (interval.ratio, interval.ratio_low, interval.ratio_high), rounds
    logs = [math.log((one.geometric_speed or 1.0) / (other.geometric_speed or 1.0)) for one, other in pairs]
    return (math.exp(sum(logs) / len(logs)), None, None), rounds


def _whole_rounds(configurations: Sequence[Configuration]) -> list[float]:
    """Give the mean ln(speed) over the configurations of each round in which all of them were measured."""
    blocks: list[Block] = [
        block for block in configurations[0].speeds if all(block in one.speeds for one in configurations)
    ]
    return [sum(math.log(one.speeds[block]) for one in configurations) / len(configurations) for block in blocks]
