"""Choose the configuration for a long run at exactly the asked global batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.errors import BenchError
from bench.report.configurations import Configuration, configurations_of
from bench.report.fit import HEADROOM, Fit, fit_of
from bench.report.launches import paused_collector
from bench.report.machines import TRAINING, WORK, differences, machine_differences, machine_key
from bench.report.phrases import between, percent
from bench.report.points import Row
from bench.report.predicted import predicted_lines
from bench.report.projection import Projection, project
from bench.report.verdicts import SpeedVerdict, judge_speeds
from bench.units import format_bytes

BILLION = 1_000_000_000
TIE_RANGE = 0.02
"""Configurations that cannot be told apart and lie within this are ties; a larger gap that is unclear stays open."""
OPEN_RANGE = 0.10
"""Without an interval, what lies within this of the fastest may be as fast: launches differ by several percent."""
MOST_JUDGED = 200
"""The fastest so many are judged with an interval; where there are more, the rest is far behind."""
_DISQUALIFYING = ("throttled_hw",)

Standing = Literal["tie", "open", "slower", "out"]


@dataclass(frozen=True)
class Question:
    """Hold what is asked for."""

    global_batch_size: int | None = None
    """Sequences per update, exactly; null for the only one there is."""
    gpus: int | None = None
    """Ranks at most; null for as many as were measured."""
    run_tokens: int = BILLION
    """Valid tokens of the run, all ranks."""
    price_per_gpu_hour: float | None = None
    """Price of one GPU for an hour, in any currency."""
    headroom: float = HEADROOM
    """Share of the device's memory that must stay free."""


@dataclass(frozen=True)
class Other:
    """Hold a configuration that was not chosen."""

    configuration: Configuration
    """The configuration."""
    standing: Standing
    """tie: as fast as the choice; open: may be; slower; out: not in the running."""
    verdict: SpeedVerdict | None
    """Its speed against the choice's; null when it is out, or too far behind to be judged."""
    why: str
    """Why it was not chosen, in one line."""


@dataclass(frozen=True)
class Recommendation:
    """Hold the choice, what it costs, and why the others lost."""

    question: Question
    """What was asked, the global batch filled in."""
    choice: Configuration
    """The configuration to run."""
    projection: Projection
    """What the run takes."""
    fit: Fit
    """Whether it fits, and with how much to spare."""
    others: tuple[Other, ...]
    """Every other configuration: ties, open ones, slower ones (fastest first), then those that are out."""
    caveats: tuple[str, ...]
    """What a reader must know before acting on it."""

    @property
    def runner_up(self) -> Other | None:
        """Give the fastest of the others, ties included."""
        running = [other for other in self.others if other.standing != "out"]
        return max(running, key=lambda other: other.configuration.speed or 0.0, default=None)

    def standing(self, which: Standing) -> list[Other]:
        """List the others of one standing."""
        return [other for other in self.others if other.standing == which]


def recommend(rows: Sequence[Row], question: Question) -> Recommendation:
    """Choose the fastest configuration that fits, whose proof did not fail; of ties the one with the least memory.

    Args:
        rows: What `load_launches` or `launches_of` gave.
        question: What is asked for.

    Raises:
        BenchError: The question has no single answer in these rows: no or several global batches, unlike machines,
            different work, or nothing that could be chosen; says which.
    """
    with paused_collector():
        return _recommend(rows, question)


def _recommend(rows: Sequence[Row], question: Question) -> Recommendation:
    configurations = configurations_of(rows)
    batch = _global_batch(rows, question.global_batch_size)
    fits = {id(one): fit_of(one.launches, question.headroom) for one in configurations}
    out = {id(one): why for one in configurations if (why := _why_out(one, batch, question, fits[id(one)]))}
    running = [one for one in configurations if id(one) not in out]
    if not running:
        raise BenchError(_nothing_to_choose(configurations, out, batch))
    _refuse_unlike(running)
    running.sort(key=lambda one: -(one.speed or 0.0))
    choice = _choose(running)
    others = [
        *_ranked(choice, running),
        *(Other(one, "out", None, out[id(one)]) for one in configurations if id(one) in out),
    ]
    asked = Question(batch, question.gpus, question.run_tokens, question.price_per_gpu_hour, question.headroom)
    return Recommendation(
        question=asked,
        choice=choice,
        projection=project(choice, question.run_tokens, question.price_per_gpu_hour),
        fit=fits[id(choice)],
        others=tuple(others),
        caveats=tuple(_caveats(choice, running, others, asked, fits[id(choice)])),
    )


def _global_batch(rows: Sequence[Row], asked: int | None) -> int:
    there = sorted({batch for row in rows if (batch := row.get("global_batch_size")) is not None})
    if asked is not None and asked in there:
        return asked
    known = ", ".join(f"{value:,}" for value in there[:12]) + (" ..." if len(there) > 12 else "")
    if asked is not None:
        there_is_not = (
            f"no row has a global batch of exactly {asked:,}. Measured: {known or 'none'}. Another global batch is "
            f"another training run, so none is offered instead."
        )
        raise BenchError("\n".join([there_is_not, *predicted_lines(rows, asked)]))
    if len(there) != 1:
        raise BenchError(f"{len(there)} global batches were measured ({known}): choose with --global-batch-size.")
    return int(there[0])


def _why_out(one: Configuration, batch: int, question: Question, fit: Fit) -> str | None:
    row = one.row
    if row.get("global_batch_size") != batch:
        return f"global batch {row.get('global_batch_size')}, not {batch}"
    if question.gpus is not None and (row.get("world_size") or 0) > question.gpus:
        return f"needs {row.get('world_size')} ranks, more than {question.gpus}"
    if one.fault is not None:
        return one.fault
    proofs = {launch.get("proof") for launch in one.launches}
    if "FAIL" in proofs:
        return "its accumulation proof failed: the update is not that of the global batch"
    if fit.fits is False:
        return f"does not fit: {fit.words}"
    for flag in _DISQUALIFYING:
        if any(flag in (launch.get("flags") or []) for launch in one.launches):
            return f"flagged {flag}: its speed is not that of the configuration"
    return None if one.speeds else "no throughput was measured"


def _nothing_to_choose(configurations: Sequence[Configuration], out: dict[int, str], batch: int) -> str:
    lines = [f"nothing to recommend at a global batch of {batch:,}:"]
    reasons: dict[str, list[str]] = {}
    for one in configurations:
        reasons.setdefault(out[id(one)], []).append(one.name)
    for why, names in list(reasons.items())[:10]:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        lines.append(f"  {'; '.join(names[:3])}{more}: {why}")
    return "\n".join(lines)


def _refuse_unlike(running: Sequence[Configuration]) -> None:
    first = running[0].row
    kinds = {(machine_key(one.row), *(one.row.get(name) for name in WORK)): one for one in running}
    for one in kinds.values():
        if machine := machine_differences(first, one.row):
            raise BenchError(
                f"the results come from unlike machines ({', '.join(machine)}), so their speeds do not compare. "
                f"Choose one with --where."
            )
        if work := differences(first, one.row, WORK):
            raise BenchError(f"the results hold different work ({', '.join(work)}). Choose one with --where.")


def _choose(running: Sequence[Configuration]) -> Configuration:
    """Of the fastest and its ties take the one with the least memory; unknown memory never wins by it."""
    fastest = running[0]
    judged = running[1:MOST_JUDGED]
    verdicts = judge_speeds(fastest.speeds, [one.speeds for one in judged])
    ties = [one for one, verdict in zip(judged, verdicts, strict=True) if _standing(verdict) == "tie"]
    known = [one for one in (fastest, *ties) if one.peak_bytes is not None]
    return min(known, key=lambda one: one.peak_bytes or 0) if fastest.peak_bytes is not None else fastest


def _standing(verdict: SpeedVerdict) -> Standing:
    """Class a verdict against the fastest, or against a tie of it."""
    if verdict.word == "slower":
        return "slower"
    if abs(verdict.ratio - 1) <= TIE_RANGE:
        return "tie"
    return "open" if verdict.ratio_low is not None or abs(verdict.ratio - 1) <= OPEN_RANGE else "slower"


def _ranked(choice: Configuration, running: Sequence[Configuration]) -> list[Other]:
    rest = [one for one in running if one is not choice]
    judged = rest[:MOST_JUDGED]
    verdicts = judge_speeds(choice.speeds, [one.speeds for one in judged])
    others = [
        Other(one, _standing(verdict), verdict, _why_not(choice, one, verdict))
        for one, verdict in zip(judged, verdicts, strict=True)
    ]
    for one in rest[MOST_JUDGED:]:
        ratio = (one.speed or 0.0) / (choice.speed or 1.0)
        others.append(Other(one, "slower", None, f"{100 * (ratio - 1):+.1f} % speed; {len(judged)} others are faster"))
    order: tuple[Standing, ...] = ("tie", "open", "slower")
    return sorted(others, key=lambda other: order.index(other.standing))


def _why_not(choice: Configuration, one: Configuration, verdict: SpeedVerdict) -> str:
    memory = ""
    if one.peak_bytes is not None and choice.peak_bytes is not None and one.peak_bytes != choice.peak_bytes:
        change = one.peak_bytes - choice.peak_bytes
        memory = f", {format_bytes(abs(change))} {'more' if change > 0 else 'less'} memory"
    if verdict.ratio_low is not None and verdict.ratio_high is not None:
        sure = f" ({between(verdict.ratio_low, verdict.ratio_high)})"
    else:
        sure = " (one round, no interval)" if verdict.rounds == 1 else f" ({verdict.note})"
    return f"{percent(verdict.ratio)} speed{sure}{memory}"


def _caveats(
    choice: Configuration, running: Sequence[Configuration], others: Sequence[Other], question: Question, fit: Fit
) -> list[str]:
    caveats = []
    rivals = [other for other in others if other.standing in ("tie", "open")]
    if len(choice.speeds) < 2:
        fast = f"{len(rivals)} others" if len(rivals) > 1 else "another one"
        close = f": {fast} may be as fast" if rivals else ""
        caveats.append(
            f"measured in one round, so launch-to-launch spread is unknown and no interval can be given{close}. "
            f"Measure in 3 or more rounds (measure.rounds) before a long run."
        )
    else:
        needed = [other.verdict.rounds_needed for other in rivals if other.verdict and other.verdict.rounds_needed]
        if needed:
            caveats.append(
                f"{len(needed)} of {len(rivals)} rivals are not settled after {len(choice.speeds)} rounds; "
                f"about {min(needed)} rounds would settle the nearest, {max(needed)} all of them."
            )
    caveats += _proof_caveats(choice)
    if fit.fits is None:
        caveats.append(fit.words)
    if question.gpus is not None and (ranks := choice.row.get("world_size") or 0) < question.gpus:
        most = max(one.row.get("world_size") or 0 for one in running)
        why = f"no configuration with more than {most} was measured" if most == ranks else "more ranks were not faster"
        caveats.append(f"uses {ranks} of {question.gpus} GPUs: {why}. Nothing is extrapolated to more ranks.")
    varied = [name for name in TRAINING if len({one.row.get(name) for one in running}) > 1]
    if varied:
        caveats.append(f"the candidates differ in {', '.join(varied)}, which changes the training, not only its speed.")
    flags = sorted({flag for launch in choice.launches for flag in launch.get("flags") or []})
    if flags:
        caveats.append(f"its launches are flagged: {', '.join(flags)}.")
    if skipped := sum(launch.get("updates_skipped") or 0 for launch in choice.launches):
        caveats.append(
            f"{skipped} of its timed updates were skipped by the gradient scaler, so it looks a little faster."
        )
    return caveats


def _proof_caveats(choice: Configuration) -> list[str]:
    proofs = {launch.get("proof") for launch in choice.launches if launch["outcome"] == "ok"}
    if proofs == {"PASS"}:
        return []
    if None in proofs:
        return ["its accumulation proof was not run: `bench check` proves that the update is that of the global batch."]
    return [f"its accumulation proof is {', '.join(sorted(map(str, proofs)))}, which is not a pass."]
