"""Compare candidates with one baseline: speed with its interval, memory in exact bytes, loss curves."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.decide.loss_curves import Curve, CurveVerdict, LaunchKey, compare_curves, curves_of
from bench.decide.pair_statistics import PairStatistics, pair_statistics
from bench.decide.side_by_side import Pauses, rounds_apart
from bench.decide.verdicts import SpeedVerdict, judge_speeds
from bench.errors import BenchError
from bench.report.configurations import Configuration, configurations_of
from bench.report.emulated import emulation_words
from bench.report.machines import differences, why_not_comparable
from bench.report.points import Row
from bench.report.where import parse_condition
from bench.report.work_rate import unit_of
from bench.units import counted, format_bytes, format_seconds, listed

_NOT_COMPARABLE = "throttled_hw"
"""The flag of a launch whose speed is that of a GPU that protected itself."""

_CAP_DIFFERENCE = 0.10
"""Shares of the timed part under the power cap that differ by more than this make an unfair race."""


@dataclass(frozen=True)
class Compared:
    """Hold one candidate beside its baseline."""

    baseline: Configuration
    """What it is compared with."""
    candidate: Configuration
    """The candidate."""
    reason: str | None
    """Why it is not compared: it did not end well, or is unlike; null when it is compared."""
    is_refused: bool
    """Whether it has a speed, but one that must not be compared."""
    verdict: SpeedVerdict | None
    """What may be said of its speed; null when it is not compared."""
    peak_change_bytes: int | None
    """Peak allocated bytes less the baseline's, worst rank; null when either is unknown or it is not compared."""
    loss: CurveVerdict | None
    """Whether its loss curve is the baseline's; null when it is not compared."""
    statistics: PairStatistics | None
    """What else its rounds tell; null without an interval."""
    warnings: tuple[str, ...]
    """What must be known beside the verdict, such as unlike machines that were compared by force."""

    @property
    def is_missing(self) -> bool:
        """Whether there is no speed to compare: of one of the two, or of both where that is not how both must end."""
        sides = (self.baseline, self.candidate)
        if any(side.speeds for side in sides):
            return not all(side.speeds for side in sides)
        return not (all(side.is_unfit for side in sides) or not any(side.was_run for side in sides))


@dataclass(frozen=True)
class Comparison:
    """Hold a baseline and all its candidates."""

    baseline: Configuration
    """The configuration the others are compared with."""
    candidates: tuple[Compared, ...]
    """Every other configuration, in order of appearance."""
    is_forced: bool
    """Whether unlike candidates were compared because the user insisted, and there are such."""
    warnings: tuple[str, ...] = ()
    """What must be known of the baseline."""

    @property
    def unproven(self) -> list[Configuration]:
        """List what was compared although its accumulation proof failed: it does not train what was asked."""
        return unproven_of(self.candidates)


def compare(
    rows: Sequence[Row],
    baseline: Sequence[str] = (),
    curves: Mapping[LaunchKey, Curve] | None = None,
    force: bool = False,
    unfit_is_answer: bool = False,
) -> Comparison:
    """Compare every configuration with the baseline.

    Args:
        rows: What `load_launches` gave.
        baseline: Conditions `COLUMN OP VALUE` that exactly one configuration meets; the default is the first one.
        curves: What `load_curves` gave.
        force: Compare unlike machines, other work and unequal global batches all the same.
        unfit_is_answer: Give a comparison without verdicts where the baseline or every candidate does not fit into
            memory, as when that is what was to be found out.

    Raises:
        BenchError: There is no baseline, or more than one, or it has no speed, or no candidate may be compared.
    """
    configurations = configurations_of(rows)
    base = _baseline(configurations, baseline, unfit_is_answer)
    others = [configuration for configuration in configurations if configuration is not base]
    if not others:
        raise BenchError(f"nothing to compare: {base.name} is the only configuration. Add results, or loosen --where.")
    unlike = {
        id(other): why_not_comparable(base.row, other.row) + throttled(base, other) for other in others if other.speeds
    }
    other_unit = {id(other) for other in others if unit_of(other.row) != unit_of(base.row)}  # no speeds to compare
    judged = [
        other
        for other in others
        if base.speeds and other.speeds and id(other) not in other_unit and (force or not unlike[id(other)])
    ]
    if not judged and not (unfit_is_answer and (base.is_unfit or all(other.is_unfit for other in others))):
        raise BenchError(_nothing_left(base, others, unlike))
    speeds = judge_speeds(base.speeds, [other.speeds for other in judged]) if judged else []
    verdicts = dict(zip(map(id, judged), speeds, strict=True))
    count = sum(verdict.interval is not None for verdict in speeds)
    base_curves, pauses = curves_of(base.launches, curves or {}), Pauses(rows)
    candidates = []
    for other in others:
        reasons = unlike.get(id(other), [])
        verdict = verdicts.get(id(other))
        if verdict is None:
            reason = "; ".join(reasons) or why_no_speed(other) or "no ratio, as the baseline does not fit"
            candidates.append(Compared(base, other, reason, bool(reasons), None, None, None, None, ()))
            continue
        loss = compare_curves(base.row, base_curves, other.row, curves_of(other.launches, curves or {}))
        change = None if None in (base.peak_bytes, other.peak_bytes) else other.peak_bytes - base.peak_bytes  # type: ignore[operator]
        interval = verdict.interval
        extra = None if interval is None else pair_statistics(base.speeds, other.speeds, interval, count)
        warnings = _warnings(base, other, reasons, pauses)
        candidates.append(Compared(base, other, None, False, verdict, change, loss, extra, warnings))
    forced = force and any(unlike[id(other)] for other in judged)
    return Comparison(base, tuple(candidates), forced, tuple(own_warnings(base)))


def unproven_of(candidates: Sequence[Compared]) -> list[Configuration]:
    """List what was compared although its accumulation proof failed, baselines first."""
    pairs = [(one.baseline, one.candidate) for one in candidates if one.verdict is not None]
    compared = {id(one): one for side in zip(*pairs, strict=True) for one in side}
    return [one for one in compared.values() if has_failed_proof(one)]


def has_failed_proof(one: Configuration) -> bool:
    """Tell whether the accumulation proof failed in any launch."""
    return any(launch.get("proof") == "FAIL" for launch in one.launches)


def throttled(base: Configuration, other: Configuration) -> list[str]:
    """Say which of the two was slowed down by its GPU's protection, so that its speed is not its own."""
    sides = (("the baseline", base), ("the candidate", other))
    names = [name for name, side in sides if any(_NOT_COMPARABLE in (row.get("flags") or []) for row in _ok(side))]
    return [f"flagged {_NOT_COMPARABLE}: {' and '.join(names)}"] if names else []


def _ok(one: Configuration) -> list[Row]:
    return [launch for launch in one.launches if launch["outcome"] == "ok"]


def _baseline(
    configurations: Sequence[Configuration], conditions: Sequence[str], may_be_unfit: bool = False
) -> Configuration:
    if not configurations:
        raise BenchError("nothing to compare: no row matches the conditions.")
    if not conditions:
        chosen = configurations[0]
    else:
        parsed = [parse_condition(text, "--baseline") for text in conditions]
        fitting = [one for one in configurations if all(c.mask([one.row.get(c.column)])[0] for c in parsed)]
        words = " and ".join(conditions)
        if not fitting:
            names = listed([one.name for one in configurations], 6, "; ")
            raise BenchError(f"--baseline {words}: no configuration matches. There are: {names}.")
        if len(fitting) > 1:
            names = listed([one.name for one in fitting], 6, "; ")
            raise BenchError(
                f"--baseline {words}: {len(fitting)} configurations match ({names}). Repeat --baseline with more "
                f"conditions until one matches, or use trial_id."
            )
        chosen = fitting[0]
    if not chosen.speeds and not (may_be_unfit and chosen.is_unfit):
        fault = chosen.fault or chosen.no_speed
        raise BenchError(f"the baseline {chosen.name} has no speed ({fault}). Choose another with --baseline.")
    return chosen


def why_no_speed(one: Configuration) -> str | None:
    """Say why a configuration has no speed; null where it has one."""
    if one.speeds:
        return None
    if one.is_unfit:
        return f"does not fit ({one.fault})"
    return one.fault or one.no_speed


def _nothing_left(base: Configuration, others: Sequence[Configuration], unlike: Mapping[int, Sequence[str]]) -> str:
    lines = [f"nothing is comparable with {base.name}:"]
    reasons: dict[str, list[str]] = {}
    for other in others:
        why = "; ".join(unlike.get(id(other), [])) or why_no_speed(other) or "not compared"
        reasons.setdefault(why, []).append(other.name)
    lines += [f"  {listed(names, 3, '; ')}: {why}" for why, names in list(reasons.items())[:8]]
    if any(unlike.values()):
        lines.append("Choose another --baseline, narrow with --where, or compare anyway with --force.")
    return "\n".join(lines)


def flags_of(one: Configuration) -> list[str]:
    """List what the launches of a configuration were flagged with."""
    return sorted({str(flag) for launch in one.launches for flag in launch.get("flags") or []})


def own_warnings(one: Configuration, with_flags: bool = True) -> list[str]:
    """Say what must be known of one configuration, whatever it is compared with."""
    warnings = [one.fault] if one.fault and one.speeds else []
    if has_failed_proof(one):
        warnings.append("proof FAIL: its update is not the global batch's, so its speed is that of different work")
    if with_flags and (flags := flags_of(one)):
        warnings.append("flags: " + ", ".join(flags))
    if one.extrapolation is not None:
        warnings.append(one.extrapolation)
    if emulated := emulation_words(one.launches):
        warnings.append(emulated)
    if skipped := sum(launch.get("updates_skipped") or 0 for launch in one.launches):
        warnings.append(f"{skipped} timed updates skipped by the gradient scaler: they took no optimizer step")
    return warnings


def _warnings(base: Configuration, other: Configuration, forced: Sequence[str], pauses: Pauses) -> tuple[str, ...]:
    warnings = [*(f"FORCED: {reason}" for reason in forced), *own_warnings(other)]
    shared = sum(block in base.speeds for block in other.speeds)
    if 0 < shared < max(len(base.speeds), len(other.speeds)):
        warnings.append(
            f"measured in {len(other.speeds)} rounds, the baseline in {len(base.speeds)}; {shared} in common"
        )
    if apart := rounds_apart(base, other):
        warnings.append(
            f"{apart} of {shared} rounds were not measured side by side: other rounds ran between the two launches, so "
            f"machine drift in between shows up as a difference"
        )
    if waits := pauses.between(base, other):
        warnings.append(
            f"{len(waits)} of {shared} rounds were interrupted between the two launches, for up to "
            f"{format_seconds(max(waits))}: machine drift in between shows up as a difference"
        )
    if settings := differences(base.row, other.row, ("allocator_settings",)):
        warnings.append(f"{', '.join(settings)}: reserved bytes and fit are not comparable")
    if unlike_limits := power_cap_warning(base.launches, other.launches):
        warnings.append(unlike_limits)
    if shared_host := _shared_host_warning(base, other):
        warnings.append(shared_host)
    if hosts := differences(base.row, other.row, ("hostname",)):
        warnings.append(", ".join(hosts))
    return tuple(warnings)


def _shared_host_warning(base: Configuration, other: Configuration) -> str | None:
    """Say what all ranks take together where both are on a CPU, in whose memory unlike numbers of them share."""
    here, there = (one.row.get("world_size") for one in (other, base))
    if other.row.get("device") != "cpu" or here == there or None in (other.memory_bytes, base.memory_bytes):
        return None
    together = f"{format_bytes(other.memory_bytes)} in all on {counted(here, 'rank')}"
    baseline = f"{format_bytes(base.memory_bytes)} on {counted(there, 'rank')} of the baseline"
    return f"peaks are those of one rank, but ranks share this host's memory: {together}, {baseline}"


def power_cap_warning(base: Sequence[Row], other: Sequence[Row]) -> str | None:
    """Say that the GPUs' power limit held the two back unalike: for shares of time more than 10 points apart."""
    shares = [
        [share for row in rows if row["outcome"] == "ok" and (share := row.get("sw_power_cap_share")) is not None]
        for rows in (other, base)
    ]
    if not all(shares):
        return None
    mean, mean_base = (statistics.fmean(of_one) for of_one in shares)
    if abs(mean - mean_base) <= _CAP_DIFFERENCE:
        return None
    return f"held back by the power limit for {mean:.0%} of the timed part, the baseline for {mean_base:.0%}"
