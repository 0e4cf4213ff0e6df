"""Compare two results of the same sweep, before and after a change: each configuration with itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.decide.compare import (
    Compared,
    own_warnings,
    power_cap_warning,
    throttled,
    unproven_of,
    why_no_speed,
)
from bench.decide.loss_curves import Curve, LaunchKey, compare_curves, curves_of
from bench.decide.verdicts import judge_unpaired
from bench.errors import BenchError
from bench.report.configurations import Configuration, configurations_of
from bench.report.launch_rows import Row, column_of, rows_at
from bench.report.machines import differences, machine_differences, why_not_comparable
from bench.report.named_results import FOLDER, SOURCE
from bench.report.points import extra_axes
from bench.report.what_changed import Change, changes_between, never_equal
from bench.report.work_rate import unit_words
from bench.units import format_rate, listed


@dataclass(frozen=True)
class Side:
    """Hold one of the two results."""

    name: str
    """What it is called."""
    first_utc: str | None
    """When its first launch was requested, ISO 8601 in UTC; null when unknown."""
    last_utc: str | None
    """When its last one was."""


@dataclass(frozen=True)
class BeforeAfter:
    """Hold two results, the first of which is the baseline."""

    before: Side
    """The baseline."""
    after: Side
    """The other one."""
    candidates: tuple[Compared, ...]
    """Every configuration that both have, in order of appearance: baseline before, candidate after."""
    only_before: tuple[Configuration, ...]
    """Configurations that only the baseline has."""
    only_after: tuple[Configuration, ...]
    """Configurations that only the other one has."""
    changed: tuple[Change, ...]
    """What is recorded as changed between them, of configurations that both have."""
    is_forced: bool
    """Whether unlike machines or other work were compared because the user insisted."""

    @property
    def unproven(self) -> list[Configuration]:
        """List what was compared although its accumulation proof failed."""
        return unproven_of(self.candidates)


def compare_results(
    rows: Sequence[Row], names: Sequence[str], curves: Mapping[LaunchKey, Curve] | None = None, force: bool = False
) -> BeforeAfter:
    """Compare every configuration of the second result with the same one, by trial id, of the first.

    Args:
        rows: What `load_launches` gave of two paths.
        names: What the two are called.
        curves: What `load_curves` gave.
        force: Compare unlike machines and other work all the same.

    Raises:
        BenchError: They have no configuration in common, or none that may be compared; says why.
    """
    sides = [_side_rows(rows, place) for place in (0, 1)]
    for side, name in zip(sides, names, strict=True):
        if not side:
            raise BenchError(f"nothing to compare: no row of {name} matches the conditions.")
    ones, others = (_renamed(configurations_of(side), sides) for side in sides)
    pairs, only_before, only_after = _matched(ones, others)
    if not pairs:
        raise BenchError(_nothing_shared(names, ones, others))
    unlike = [
        why_not_comparable(one.row, other.row) + throttled(one, other) if one.speeds and other.speeds else []
        for one, other in pairs
    ]
    judged = [
        place
        for place, (one, other) in enumerate(pairs)
        if one.speeds and other.speeds and (force or not unlike[place])
    ]
    if any(unlike) and not judged:
        raise BenchError(_nothing_left(names, pairs, unlike))
    verdicts = dict(
        zip(judged, judge_unpaired([(pairs[at][0].speeds, pairs[at][1].speeds) for at in judged]), strict=True)
    )
    candidates = []
    for place, (one, other) in enumerate(pairs):
        verdict = verdicts.get(place)
        if verdict is None:
            reason = "; ".join(unlike[place]) or _why_no_ratio(names, one, other)
            candidates.append(Compared(one, other, reason, bool(unlike[place]), None, None, None, None, ()))
            continue
        loss = compare_curves(
            one.row, curves_of(one.launches, curves or {}), other.row, curves_of(other.launches, curves or {})
        )
        change = None if None in (one.peak_bytes, other.peak_bytes) else other.peak_bytes - one.peak_bytes  # type: ignore[operator]
        warnings = tuple(_warnings(names, one, other, unlike[place]))
        candidates.append(Compared(one, other, None, False, verdict, change, loss, None, warnings))
    return BeforeAfter(
        before=_side(names[0], sides[0]),
        after=_side(names[1], sides[1]),
        candidates=tuple(candidates),
        only_before=tuple(only_before),
        only_after=tuple(only_after),
        changed=tuple(changes_between([(one.row, other.row) for one, other in pairs])),
        is_forced=force and any(unlike[place] for place in judged),
    )


def _side_rows(rows: Sequence[Row], place: int) -> Sequence[Row]:
    return rows_at(rows, [at for at, source in enumerate(column_of(rows, SOURCE)) if source == place])


def _side(name: str, rows: Sequence[Row]) -> Side:
    times = sorted(str(time) for time in column_of(rows, "started_utc") if time is not None)
    return Side(name, *((times[0], times[-1]) if times else (None, None)))


def _renamed(ones: Sequence[Configuration], sides: Iterable[Sequence[Row]]) -> list[Configuration]:
    """Name configurations of either side by what varies within one: what varies between them is told of all."""
    varying = dict.fromkeys(name for side in sides for name in extra_axes(side) if name != FOLDER.name)
    return [replace(one, extra_axes=tuple(varying)) for one in ones]


def _matched(
    ones: Sequence[Configuration], others: Sequence[Configuration]
) -> tuple[list[tuple[Configuration, Configuration]], list[Configuration], list[Configuration]]:
    """Pair by trial id, those of like machines first; also give what is left on either side."""
    left: dict[str, list[Configuration]] = {}
    for other in others:
        left.setdefault(other.row["trial_id"], []).append(other)
    found: dict[int, Configuration] = {}
    for is_like in (True, False):
        for one in ones:
            rest = left.get(one.row["trial_id"], [])
            match = next((o for o in rest if not (is_like and machine_differences(one.row, o.row))), None)
            if match is not None and id(one) not in found:
                rest.remove(match)
                found[id(one)] = match
    pairs = [(one, found[id(one)]) for one in ones if id(one) in found]
    return pairs, [one for one in ones if id(one) not in found], [o for rest in left.values() for o in rest]


def _nothing_shared(names: Sequence[str], ones: Sequence[Configuration], others: Sequence[Configuration]) -> str:
    apart = never_equal([one.row for one in ones], [other.row for other in others])
    reasons = [f"{column} is {mine} in {names[0]}, {its} in {names[1]}" for column, (mine, its) in apart.items()]
    why = "; ".join(reasons) or "each setting occurs in both, but never together"
    return (
        f"{names[0]} and {names[1]} have no configuration in common, so neither is a baseline for the other: {why}. "
        f"To compare configurations with each other, put all on one table with --pool."
    )


def _nothing_left(
    names: Sequence[str], pairs: Sequence[tuple[Configuration, Configuration]], unlike: Sequence[Sequence[str]]
) -> str:
    reasons: dict[str, list[str]] = {}
    for (one, _), why in zip(pairs, unlike, strict=True):
        if why:
            reasons.setdefault("; ".join(why), []).append(one.name)
    lines = [f"nothing in {names[1]} is comparable with {names[0]}:"]
    lines += [f"  {listed(ones, 3, '; ')}: {why}" for why, ones in list(reasons.items())[:8]]
    return "\n".join([*lines, "Narrow with --where, or compare anyway with --force."])


def _why_no_ratio(names: Sequence[str], one: Configuration, other: Configuration) -> str:
    """Say which side has no speed and why, and what the other has; of both alike, once."""
    each = [format_rate(side.speed, unit_words([side.row])) if side.speeds else _fault(side) for side in (one, other)]
    if each[0] == each[1]:
        return f"in both: {each[0]}"
    return "; ".join(f"in {name}: {words}" for name, words in zip(names, each, strict=True))


def _fault(one: Configuration) -> str | None:
    return why_no_speed(one) if one.was_run or one.is_unfit else one.fault


def _warnings(names: Sequence[str], one: Configuration, other: Configuration, forced: Sequence[str]) -> Iterable[str]:
    yield from (f"FORCED: {reason}" for reason in forced)
    each = [own_warnings(side, with_flags=False) for side in (one, other)]
    for warning in each[0]:
        yield warning if warning in each[1] else f"in {names[0]}: {warning}"
    yield from (f"in {names[1]}: {warning}" for warning in each[1] if warning not in each[0])
    if settings := differences(one.row, other.row, ("allocator_settings",)):
        yield f"{', '.join(settings)}: reserved bytes and fit are not comparable"
    if limits := power_cap_warning(one.launches, other.launches):
        yield limits
