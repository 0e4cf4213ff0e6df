"""Choose the configuration for a long run at exactly the asked global batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.decide.compare import flags_of
from bench.decide.eligible import proof_doubt, reasons_out, refuse_unlike
from bench.decide.predicted import predicted_lines
from bench.decide.projection import Projection, project
from bench.decide.question import Question
from bench.decide.ranking import Other, Standing, rank
from bench.errors import BenchError
from bench.report.configurations import Configuration, configurations_of
from bench.report.emulated import emulation_words
from bench.report.fit import Fit, fit_of
from bench.report.launch_rows import Row, column_of
from bench.report.launches import paused_collector
from bench.units import counted, listed

__all__ = ["Question", "Recommendation", "recommend"]


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
        """Give the fastest of the others by the ratio that ranks them; ties and open ones come before slower ones."""
        running = [other for other in self.others if other.standing != "out"]
        return min(running, key=_second_order, default=None)

    @property
    def doubts(self) -> list[str]:
        """Say what a choice must not be made without: that it is not proven, or not known to fit; empty when it is."""
        fit = "not known to fit" if self.fit.fits is None else None
        return [doubt for doubt in (fit, proof_doubt(self.choice)) if doubt is not None]

    @property
    def flags(self) -> list[str]:
        """List what the launches of the choice were flagged with."""
        return flags_of(self.choice)

    @property
    def updates_skipped(self) -> int:
        """Count timed updates of the choice that a gradient scaler skipped, all launches."""
        return _skipped(self.choice)

    def standing(self, which: Standing) -> list[Other]:
        """List the others of one standing."""
        return [other for other in self.others if other.standing == which]


def recommend(rows: Sequence[Row], question: Question) -> Recommendation:
    """Choose the fastest configuration that fits and is proven; of ties the one with the least memory.

    Where nothing is proven, or nothing is known to fit, the choice is among the rest, and `doubts` says so.

    Args:
        rows: What `load_launches` or `launches_of` gave.
        question: What is asked for.

    Raises:
        BenchError: The question has no single answer in these rows: no or several global batches, several training
            problems, unlike machines, or nothing that could be chosen; says which.
    """
    with paused_collector():
        return _recommend(rows, question)


def _recommend(rows: Sequence[Row], question: Question) -> Recommendation:
    configurations = configurations_of(rows)
    batch = _global_batch(rows, configurations, question)
    asked = replace(question, global_batch_size=batch)
    out = reasons_out(rows, configurations, asked)
    running = [one for one in configurations if id(one) not in out]
    if not running:
        raise BenchError(_nothing_to_choose(configurations, out, batch))
    refuse_unlike(rows, running)
    choice, others = rank(running)
    beside = [other.configuration for other in others if other.verdict is not None]
    projection = project(choice, question.run_tokens, question.price_per_gpu_hour, beside)
    others += [Other(one, "out", None, out[id(one)]) for one in configurations if id(one) in out]
    fit = fit_of(choice.launches, question.headroom)
    return Recommendation(
        question=asked,
        choice=choice,
        projection=projection,
        fit=fit,
        others=tuple(others),
        caveats=tuple(_caveats(choice, running, others, asked, fit, projection.rounds_missing)),
    )


def _second_order(other: Other) -> tuple[bool, float]:
    return other.standing == "slower", -(other.verdict.ratio if other.verdict is not None else 0.0)


def _global_batch(rows: Sequence[Row], configurations: Sequence[Configuration], question: Question) -> int:
    asked = question.global_batch_size
    there = sorted(set(column_of(rows, "global_batch_size")) - {None})
    if asked is not None and asked in there:
        return asked
    known = ", ".join(f"{value:,}" for value in there[:12]) + (" ..." if len(there) > 12 else "")
    if asked is not None:
        there_is_not = (
            f"no row has a global batch of {asked:,}; measured: {known or 'none'}. Another global batch is another "
            f"training run, so none is offered instead."
        )
        raise BenchError("\n".join([there_is_not, *predicted_lines(rows, configurations, question)]))
    if len(there) != 1:
        raise BenchError(f"{len(there)} global batches were measured ({known}): choose one with --global-batch-size.")
    return int(there[0])


def _nothing_to_choose(configurations: Sequence[Configuration], out: dict[int, str], batch: int) -> str:
    lines = [f"nothing to recommend at a global batch of {batch:,}:"]
    reasons: dict[str, list[str]] = {}
    for one in configurations:
        reasons.setdefault(out[id(one)], []).append(one.name)
    for why, names in list(reasons.items())[:10]:
        lines.append(f"  {listed(names, 3, '; ')}: {why}")
    return "\n".join(lines)


def _caveats(
    choice: Configuration,
    running: Sequence[Configuration],
    others: Sequence[Other],
    question: Question,
    fit: Fit,
    missing: int,
) -> list[str]:
    caveats = []
    rivals = [other for other in others if other.standing in ("tie", "open")]
    if len(choice.speeds) < 2:
        fast = f"{len(rivals)} others" if len(rivals) > 1 else "another one"
        close = f": {fast} may be as fast" if rivals else ""
        caveats.append(
            f"measured in one round only, so the launch-to-launch spread is unknown and there is no interval{close}. "
            f"Measure 3 or more rounds (measure.rounds) before a long run."
        )
    else:
        beside = [other.verdict for other in rivals if other.verdict and not _is_elsewhere(other, choice)]
        needed = [verdict.rounds_needed for verdict in beside if verdict.rounds_needed]
        if needed:
            caveats.append(
                f"{len(needed)} of {len(beside)} rivals are not settled after {len(choice.speeds)} rounds; "
                f"about {min(needed)} rounds would settle the first, {max(needed)} all of them."
            )
    judged = [other for other in others if other.verdict]
    if elsewhere := sum(_is_elsewhere(other, choice) for other in judged):
        caveats.append(
            f"{elsewhere} of the others {'is' if elsewhere == 1 else 'are'} in another result, measured at another "
            f"time: what the machine did in between is in their differences, which have no interval. `bench compare` "
            f"of two results compares each configuration with itself; --pool makes one set of rounds."
        )
    unequal = sum(
        other.configuration.speeds.keys() != choice.speeds.keys()
        for other in judged
        if not _is_elsewhere(other, choice)
    )
    if unequal:
        caveats.append(
            f"{unequal} of the others were not measured in the same rounds as the choice, so their differences are "
            f"corrected for the speed of each round. Finish the sweep to compare all in the same rounds."
        )
    if missing:
        caveats.append(
            f"it was not measured in {missing} of {len(choice.speeds) + missing} rounds: its speed is that over all of "
            f"them, the missed ones estimated from the others."
        )
    if choice.extrapolation is not None:
        caveats.append(f"{choice.extrapolation}: full updates take too long.")
    if emulated := emulation_words(one.row for one in running):
        caveats.append(f"{emulated}.")
    caveats += _proof_caveats(choice)
    if fit.fits is None:
        caveats.append(fit.words)
    if question.gpus is not None and (ranks := choice.row.get("world_size") or 0) < question.gpus:
        most = max(one.row.get("world_size") or 0 for one in running)
        why = (
            f"nothing was measured on more than {counted(most, 'rank')}"
            if most == ranks
            else "more ranks were not faster"
        )
        caveats.append(f"uses {ranks} of {question.gpus} GPUs: {why}. Nothing is extrapolated to more ranks.")
    if flags := flags_of(choice):
        caveats.append(f"its launches are flagged {', '.join(flags)}.")
    if skipped := _skipped(choice):
        caveats.append(
            f"{skipped} of its timed updates were skipped by the gradient scaler, so it looks slightly faster."
        )
    return caveats


def _is_elsewhere(other: Other, choice: Configuration) -> bool:
    return bool(other.configuration.row.get("folder") != choice.row.get("folder"))


def _skipped(choice: Configuration) -> int:
    return sum(launch.get("updates_skipped") or 0 for launch in choice.launches)


def _proof_caveats(choice: Configuration) -> list[str]:
    proofs = {launch.get("proof") for launch in choice.launches if launch["outcome"] == "ok"}
    if proofs == {"PASS"}:
        return []
    if None in proofs:
        return ["its accumulation proof was not run: `bench check` proves that its update is the global batch's."]
    return [f"its accumulation proof says {', '.join(sorted(map(str, proofs)))}, not PASS."]
