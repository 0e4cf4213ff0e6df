"""Read the lines of the checklist from what the watched cases showed."""

from __future__ import annotations

from collections.abc import Sequence

from bench.check.exchange.lines import Line
from bench.check.optimizers import LR, lr_factor
from bench.check.trial_run import Watched
from bench.check.watch import TOLERANCE, Seen
from bench.units import listed

_CONTRIBUTES = 1e-6
"""A sequence that weighs less than this share of what it should was left out."""
_LR_TOLERANCE = 1e-12
_MOST_NAMES = 4


def examples_line(watched: Sequence[Watched]) -> Line:
    """Say whether every sequence is in exactly one update."""
    planned = sum(len(one.windows) for one in watched)
    made = sum(len(one.watch.seen) for one in watched)
    problems, left_out, is_unknown = [], 0, False
    for one in watched:
        counts = _updates_of_each_sequence(one)
        if counts is None:
            is_unknown = True
            continue
        missing = [index for index, count in enumerate(counts) if count == 0]
        repeated = [index for index, count in enumerate(counts) if count > 1]
        left_out += len(missing)
        if missing:
            problems.append(f"{len(missing)} of {one.sequences} sequences are in no update")
        elif repeated:
            problems.append(f"{len(repeated)} of {one.sequences} sequences are in more than one update")
        if problems and (missing or repeated):
            problems[-1] += f" ({one.case.name}); {len(one.watch.seen)} of {len(one.windows)} updates made"
    total = sum(one.sequences for one in watched)
    if problems:
        return Line("examples", "FAIL", float(left_out), problems[0])
    if made != planned:
        one = next(one for one in watched if len(one.watch.seen) != len(one.windows))
        words = f"{len(one.watch.seen)} updates instead of {len(one.windows)} ({one.case.name})"
        return Line("examples", "FAIL", float(made - planned), words)
    if is_unknown:
        return Line("examples", "NOT PROVEN", None, "the gradients of single sequences are too similar to tell apart")
    return Line(
        "examples", "PASS", 0.0, f"{total} sequences in {planned} updates of {len(watched)} cases, each used once"
    )


def _updates_of_each_sequence(one: Watched) -> list[int] | None:
    """Count the updates that each sequence is in; None where that cannot be told."""
    counts = [0] * one.sequences
    first = 0
    for update, seen in enumerate(one.watch.seen):
        size = sum(len(inputs) for inputs, _ in one.windows[update]) if update < len(one.windows) else 0
        if seen.gradient_error <= TOLERANCE:
            for index in range(first, first + size):
                counts[index] += 1
        elif seen.shares is None:
            return None
        else:
            for index, share in enumerate(seen.shares):
                counts[index] += abs(share) > _CONTRIBUTES
        first += size
    return counts


def weighting_line(watched: Sequence[Watched]) -> Line:
    """Say whether the gradient of every update made is that of the concatenated batch."""
    unbounded = [one for one in watched if not one.is_clipped]
    pairs = [(seen.gradient_error, one, seen) for one in unbounded for seen in one.watch.seen[: len(one.windows)]]
    if not pairs:
        return Line("weighting", "NOT PROVEN", None, "the step made no update")
    error, one, seen = max(pairs, key=lambda pair: pair[0])
    if error <= TOLERANCE:
        return Line(
            "weighting", "PASS", error, f"relative error at most {error:.1e}, in float64; limit {TOLERANCE:.0e}"
        )
    return Line("weighting", "FAIL", error, f"relative error {error:.3g} ({one.case.name}){_weights_in_words(seen)}")


def _weights_in_words(seen: Seen) -> str:
    shares = [share for share in seen.shares or () if abs(share) > _CONTRIBUTES]
    if not shares:
        return ""
    return f"; sequences weigh {min(shares):.2f} to {max(shares):.2f} times what they should"


def update_line(watched: Sequence[Watched], weighting: Line) -> Line:
    """Say whether the optimizer changed the parameters as it does with the reference's gradient."""
    if weighting.verdict != "PASS":
        return Line("update", "NOT PROVEN", None, "the gradient is already wrong")
    errors = [seen.update_error for one in watched if not one.is_clipped for seen in one.watch.seen[: len(one.windows)]]
    error = max(errors)
    words = f"relative error at most {error:.1e}, SGD with momentum and AdamW (eps 1e-4) in float64"
    return Line("update", "PASS" if error <= TOLERANCE else "FAIL", error, words)


def clipping_line(watched: Sequence[Watched], weighting: Line) -> Line:
    """Say whether the clipped gradient is the clipped concatenated one."""
    clipped = [one for one in watched if one.is_clipped]
    if not clipped:
        return Line("clipping", "NOT APPLICABLE", None, "the step takes no clip_norm")
    seen = [seen for one in clipped for seen in one.watch.seen[: len(one.windows)]]
    if weighting.verdict != "PASS" or not seen:
        return Line("clipping", "NOT PROVEN", None, "the gradient before clipping is already wrong")
    error = max(one.gradient_error for one in seen)
    limit, norm = clipped[0].watch.clip_norm, max(one.norm for one in seen)
    words = f"relative error {error:.2g} of the clipped gradient; norm {norm:.3g} clipped to {limit:.3g}"
    return Line("clipping", "PASS" if error <= TOLERANCE else "FAIL", error, words)


def schedule_line(watched: Sequence[Watched]) -> Line:
    """Say whether each update used the learning rate due at its number."""
    scheduled = [one for one in watched if one.schedule_steps is not None]
    if not scheduled:
        return Line("schedule", "NOT APPLICABLE", None, "the step takes no schedule")
    for one in scheduled:
        for update, seen in enumerate(one.watch.seen):
            right = LR[one.case.optimizer] * lr_factor(update)
            if abs(seen.lr - right) > _LR_TOLERANCE:
                words = f"update {update} used learning rate {seen.lr:g} instead of {right:g}"
                return Line("schedule", "FAIL", seen.lr / right, f"{words} ({seen.lr / right:g}x)")
        if one.schedule_steps != len(one.watch.seen):
            words = f"stepped {one.schedule_steps} times in {len(one.watch.seen)} updates"
            return Line("schedule", "FAIL", float(one.schedule_steps or 0), words)
    updates = sum(len(one.watch.seen) for one in scheduled)
    return Line("schedule", "PASS", 1.0, f"stepped once in each of {updates} updates")


def parameters_line(watched: Sequence[Watched]) -> Line:
    """Name parameters without any gradient, and separately those whose gradient is mathematically zero."""
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
        return Line(
            "parameters", "FAIL", float(len(untrained)), f"the loss does not depend on {_names(untrained)}; {words}"
        )
    return Line("parameters", "PASS", 0.0, words)


def _names(names: Sequence[str]) -> str:
    return listed(names, _MOST_NAMES)
