"""Read the lines of the checklist from what the watched cases showed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.check.cut import CutResult
from bench.check.exchange.lines import Line, Verdict
from bench.check.optimizers import LR, lr_factor
from bench.check.trial_run import Watched
from bench.check.watch import TOLERANCE, Beside, Seen
from bench.units import listed

_CONTRIBUTES = 1e-6
"""A sequence that weighs less than this share of what it should was left out."""
_LR_TOLERANCE = 1e-12
_MOST_NAMES = 4
NOT_CALLED = "optimizer.step was never called"


def is_by_hand(watched: Sequence[Watched]) -> bool:
    """Tell whether parameters changed although no optimizer made a step."""
    return not any(one.watch.seen for one in watched) and any(one.watch.beside for one in watched)


def examples_line(watched: Sequence[Watched]) -> Line:
    """Say whether every sequence with a target is in exactly one update of each pass."""
    if is_by_hand(watched):
        words = f"{NOT_CALLED}: what changed the parameters cannot be taken apart into sequences"
        return Line("examples", "NOT PROVEN", None, words)
    planned = sum(one.updates for one in watched)
    made = sum(len(one.watch.seen) for one in watched)
    problems, left_out, is_unknown = [], 0, False
    for one in watched:
        passes = _updates_of_each_sequence(one)
        if passes is None:
            is_unknown = True
            continue
        left_out += sum(counts.count(0) for counts in passes)
        counts = next((counts for counts in passes if set(counts) != {1}), None)
        if counts is not None:
            missing = counts.count(0)
            count, where = (missing, "no update") if missing else (sum(n > 1 for n in counts), "more than one update")
            made_here = f"{len(one.watch.seen)} of {one.updates} updates made"
            problems.append(f"{count} of {len(counts)} sequences are in {where}, in {one.case.name}: {made_here}")
    total = sum(sum(one.sequences) * one.case.passes for one in watched)
    if problems:
        return Line("examples", "FAIL", float(left_out), problems[0])
    for one in watched:
        if len(one.watch.seen) != one.updates and not _is_excused(one, watched):
            words = f"{len(one.watch.seen)} updates instead of {one.updates}, in {one.case.name}"
            return Line("examples", "FAIL", float(made - planned), words)
    if is_unknown:
        words = "a gradient is made of something else than the sequences, or they are too alike to tell them apart"
        return Line("examples", "NOT PROVEN", None, words)
    return Line("examples", "PASS", 0.0, f"{total} sequences in {planned} updates of {len(watched)} cases, none twice")


def _is_excused(one: Watched, watched: Sequence[Watched]) -> bool:
    """Tell whether updates too many or too few come of a gradient that is wrong elsewhere, whose line says why.

    A window without any target has such a gradient too, and one whose only target was changed may have none.
    """
    others = [seen for other in watched if other is not one for seen in other.watch.seen]
    wrong = [seen.cause for seen in others if seen.gradient_error > TOLERANCE and seen.cause is not None]
    many = len(one.watch.seen) - one.updates
    is_of_empty = bool(wrong) and 0 < many <= len(one.watch.windows) - one.updates
    return is_of_empty or any(cause.is_exact and cause.shares is None for cause in wrong)


def _updates_of_each_sequence(one: Watched) -> list[list[int]] | None:
    """Count the updates that each sequence with a target is in, pass by pass; None where that cannot be told."""
    passes = [[0] * sum(one.sequences) for _ in range(one.case.passes)]
    number, before = 0, set[tuple[int, int]]()
    for seen in one.watch.seen:
        if seen.window is not None:
            number = seen.window // len(one.windows)
        if seen.gradient_error <= TOLERANCE and seen.window is not None:
            start = sum(one.sequences[: seen.window % len(one.windows)])
            own = set(range(start, start + one.sequences[seen.window % len(one.windows)]))
        elif seen.cause is None or seen.cause.shares is None:
            return None
        else:
            own = {index for index, share in enumerate(seen.cause.shares) if abs(share) > _CONTRIBUTES}
        here = {(number, index) for index in own}
        if seen.cause is not None and seen.cause.has_left:
            here |= before
        for of_pass, index in here:
            passes[of_pass][index] += 1
        before = here
    return passes


def weighting_line(watched: Sequence[Watched]) -> Line:
    """Say whether the gradient of every update made is that of the concatenated batch."""
    if is_by_hand(watched):
        return Line("weighting", "NOT PROVEN", None, f"{NOT_CALLED}: no gradient was handed to it")
    pairs = [(seen, one) for one in watched if not one.is_clipped for seen in one.watch.seen if seen.window is not None]
    if not pairs:
        return Line("weighting", "NOT PROVEN", None, "the step made no update")
    # What is known of a mistake is best said of a gradient that is a number, and wholly explained.
    worst, one = max(pairs, key=lambda pair: _tells(pair[0]))
    if worst.gradient_error <= TOLERANCE:
        error = worst.gradient_error
        return Line(
            "weighting", "PASS", error, f"relative error at most {error:.1e}, in float64; limit {TOLERANCE:.0e}"
        )
    error = worst.gradient_error
    cause = f": {worst.cause.words}" if worst.cause is not None and worst.cause.words else ""
    size = f"relative error {error:.3g}" if math.isfinite(error) else "no relative error"
    return Line("weighting", "FAIL", error, f"{size}, in {one.case.name}{cause}")


def _tells(seen: Seen) -> tuple[bool, bool, bool, float]:
    is_explained = seen.cause is not None and seen.cause.is_exact
    error = seen.gradient_error
    return error > TOLERANCE, math.isfinite(error), is_explained, error


def update_line(watched: Sequence[Watched], weighting: Line, cut: CutResult | None) -> Line:
    """Say whether what became of the parameters is what the optimizer does with the reference's gradient.

    Args:
        watched: The cases.
        weighting: The line on the gradients.
        cut: How it went with the same data cut differently; None where that was not tried.
    """
    beside = [each for one in watched for each in one.watch.beside]
    if weighting.verdict == "FAIL":
        return Line("update", "NOT PROVEN", None, "the gradients it starts from are wrong already")
    if beside or is_by_hand(watched):
        return _beside_line(watched, beside, cut)
    if weighting.verdict != "PASS":
        return Line("update", "NOT PROVEN", None, weighting.words)
    if cut is not None and cut.rates:
        return Line("update", "NOT PROVEN", None, "the rate it is made with depends on the cut already")
    errors = [
        seen.update_error
        for one in watched
        if not one.is_clipped
        for seen in [*one.watch.seen, *([] if one.watch.is_broken_by_empty else one.watch.seen_empty)]
        if seen.window is not None
    ]
    error = max(errors)
    words = f"relative error {error:.1e} at most, SGD with momentum and AdamW (eps 1e-4) in float64"
    changed = sorted(set().union(*(one.watch.changed_options for one in watched)))
    if error > TOLERANCE and changed:
        words = f"relative error {error:.1e}: the step changes {', '.join(changed)} of the optimizer"
    if error <= TOLERANCE and cut is not None and cut.parameters > TOLERANCE:
        return Line("update", "FAIL", cut.parameters, _cut_in_words(cut))
    return Line("update", "PASS" if error <= TOLERANCE else "FAIL", error, words)


def _beside_line(watched: Sequence[Watched], beside: Sequence[Beside], cut: CutResult | None) -> Line:
    largest = max(beside, key=lambda each: each.amount)
    what = f"by {largest.amount:.3g} of {largest.of}, in {listed(largest.names, _MOST_NAMES)}"
    words = f"parameters change beside optimizer.step, {what}"
    if is_by_hand(watched):
        words = f"{NOT_CALLED}, and the parameters change {what}"
    if cut is None:
        return Line("update", "NOT PROVEN", largest.amount, words)
    if cut.parameters > TOLERANCE:
        return Line("update", "FAIL", cut.parameters, f"{words}; {_cut_in_words(cut)}")
    return Line("update", "NOT PROVEN", largest.amount, f"{words}; the same however the data are cut")


def _cut_in_words(cut: CutResult) -> str:
    return f"they depend on how the same data are cut: relative difference {cut.parameters:.2g} between {cut.where}"


def clipping_line(watched: Sequence[Watched], weighting: Line) -> Line:
    """Say whether the clipped gradient is the clipped concatenated one."""
    clipped = [one for one in watched if one.is_clipped]
    if not clipped:
        return Line("clipping", "NOT APPLICABLE", None, "the step takes no clip_norm")
    seen = [seen for one in clipped for seen in one.watch.seen if seen.window is not None]
    if weighting.verdict != "PASS" or not seen:
        return Line("clipping", "NOT PROVEN", None, "the gradient before clipping is already wrong")
    error = max(one.gradient_error for one in seen)
    limit, norm = clipped[0].watch.clip_norm, max(one.norm for one in seen)
    words = f"relative error {error:.2g} of the clipped gradient; norm {norm:.3g} clipped to {limit:.3g}"
    return Line("clipping", "PASS" if error <= TOLERANCE else "FAIL", error, words)


def schedule_line(watched: Sequence[Watched], cut: CutResult | None) -> Line:
    """Say whether each update used the rate of its own number."""
    scheduled = [one for one in watched if one.schedule_steps is not None]
    for one in scheduled:
        for update, seen in enumerate(one.watch.seen):
            right = LR[one.case.optimizer] * lr_factor(update)
            if abs(seen.lr - right) > _LR_TOLERANCE:
                words = f"update {update} used learning rate {seen.lr:g} instead of {right:g}"
                return Line("schedule", "FAIL", seen.lr / right, f"{words} ({seen.lr / right:g}x)")
        if one.schedule_steps != len(one.watch.seen):
            words = f"stepped {one.schedule_steps} times in {len(one.watch.seen)} updates"
            return Line("schedule", "FAIL", float(one.schedule_steps or 0), words)
    if cut is not None and cut.rates:
        return Line("schedule", "FAIL", None, f"the rate depends on how the same data are cut: {cut.rates}")
    own = _own_rates(watched)
    if own:
        verdict: Verdict = "NOT PROVEN" if cut is None or scheduled else "NOT APPLICABLE"
        known = "" if cut is None else "; the same however the data are cut"
        return Line(
            "schedule", verdict, None, f"the step sets the rate itself, and the check took it over: {own}{known}"
        )
    if not scheduled:
        return Line("schedule", "NOT APPLICABLE", None, "the step takes no schedule")
    updates = sum(len(one.watch.seen) for one in scheduled)
    return Line("schedule", "PASS", 1.0, f"stepped once in each of {updates} updates")


def _own_rates(watched: Sequence[Watched]) -> str:
    """Write the rates of the first case in which they are not the optimizer's own; empty where there is none."""
    for one in watched:
        if one.schedule_steps is None:
            right = LR[one.case.optimizer]
            if any(abs(rate - right) > _LR_TOLERANCE for seen in one.watch.seen for rate in seen.rates):
                return f"{listed([f'{seen.lr:.3g}' for seen in one.watch.seen], 3)} instead of {right:g}"
    return ""


def parameters_line(watched: Sequence[Watched], hint: str = "") -> Line:
    """Name parameters without any gradient, and apart from them those whose gradient is zero by analysis.

    `hint` says what is known to keep gradients away from this model.
    """
    if not watched or not any(one.watch.seen for one in watched):
        return Line("parameters", "NOT PROVEN", None, "the step made no update")
    watches = [one.watch for one in watched]
    names = [name for name, parameter in watches[0].model.named_parameters() if parameter.requires_grad]
    frozen = sum(not parameter.requires_grad for parameter in watches[0].model.parameters())
    untrained = [name for name in names if all(name in watch.untrained for watch in watches)]
    trained = set().union(*(watch.with_gradient for watch in watches))
    zero = [name for name in names if name not in trained and name not in untrained]
    words = f"{len(names) - len(untrained)} of {len(names)} received one"
    if zero:
        largest = max(watch.zero_by_analysis.get(name, 0.0) for watch in watches for name in zero)
        words += f"; mathematically zero (here up to {largest:.0e}): {_names(zero)}"
    if frozen:
        words += f"; {frozen} frozen"
    if untrained:
        words = f"the loss does not depend on {_names(untrained)}; {words}{hint and '; '}{hint}"
        return Line("parameters", "FAIL", float(len(untrained)), words)
    return Line("parameters", "PASS", 0.0, words)


def _names(names: Sequence[str]) -> str:
    return listed(names, _MOST_NAMES)
