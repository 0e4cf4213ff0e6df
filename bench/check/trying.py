"""Run the cases, and where a step does something of its own, run them again with that taken over."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from bench.check.cases import CASES
from bench.check.cut import CutResult, compare_cuts
from bench.check.float32 import ROUNDING, InDouble
from bench.check.step import Step
from bench.check.subject import Subject
from bench.check.trial_run import Watched, run_case
from bench.check.watch import TOLERANCE, Seen
from bench.workload.user_errors import described

_SAME_NORM = 1e-5
"""Relative difference up to which norms count as one: torch adds 1e-6 to a norm that it clips by."""


@dataclass
class Tried:
    """State what the cases showed, and what of the step's own was taken over to see it."""

    watched: list[Watched]
    reason: str | None = None
    """Why not all cases were run; null where they were."""
    error: BaseException | None = None
    """What the step raised."""
    notes: list[str] = field(default_factory=list)
    """What else there is to say of the step, in clauses."""
    rounding: float | None = None
    """Largest error of a gradient with the step's float32; null where it makes no use of it."""
    is_rounding_left_out: bool = False
    """Whether the cases were run without these casts."""
    cut: CutResult | None = None
    """How it went with the same data cut differently; null where that was not tried."""


def try_step(step: Step, subject: Subject, deadline_s: float, is_random: bool) -> Tried:
    """Run a user's step through the cases and the cuts."""
    tried = Tried(*run_cases(step, subject, deadline_s, 1, 0))
    _excuse_empty(tried)
    if tried.error is not None or tried.reason is not None:
        return tried
    mode: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext
    largest = _largest_error(tried.watched)
    if TOLERANCE < largest <= ROUNDING:
        in_double = InDouble()
        with in_double:
            again = run_cases(step, subject, deadline_s, 1, 0)
        tried.rounding = largest if in_double.has_float32 else None
        if in_double.casts and again[1] is None and again[2] is None and _largest_error(again[0]) <= TOLERANCE:
            tried.watched, tried.is_rounding_left_out, mode = again[0], True, InDouble
    clip_norm = _own_clip(tried.watched)
    if clip_norm is not None:
        with mode():
            again = run_cases(step, subject, deadline_s, 1, 0, own_clip=clip_norm)
        if again[1] is None and again[2] is None and _largest_error(again[0]) <= TOLERANCE:
            tried.watched = again[0]
            tried.notes.append(f"the step clips to norm {clip_norm:.3g} by itself, and the check took it over")
    if any(one.watch.is_broken_by_empty for one in tried.watched):
        tried.notes.append("a window without any target divides 0 by 0: have the step skip it")
    if any(one.watch.is_data_changed for one in tried.watched):
        tried.notes.append("the step changes its inputs in place")
    if not is_random and time.monotonic() < deadline_s:
        try:
            with mode():
                tried.cut = compare_cuts(step, subject)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # user code may raise SystemExit, and that is a failed step too
            tried.error = error
    return tried


def run_cases(
    step: Step, subject: Subject, deadline_s: float, world_size: int, rank: int, **options: Any
) -> tuple[list[Watched], str | None, BaseException | None]:
    """Run the cases that time allows; say why the rest was not run, or give what the step raised.

    `options` are those of `run_case`; `implementations` gives the implementation of each optimizer.
    """
    watched: list[Watched] = []
    longest_s = 0.0
    implementations: dict[str, str] = options.pop("implementations", {})
    for case in CASES:
        begun_s = time.monotonic()
        # Several ranks must come to the same decision: the clock of one may not stop it alone.
        if world_size == 1 and begun_s + longest_s > deadline_s:
            return watched, f"{len(watched)} of {len(CASES)} cases took all of the time limit", None
        implementation = implementations.get(case.optimizer, "for_loop")
        try:
            watched.append(
                run_case(
                    case, subject, step, world_size=world_size, rank=rank, implementation=implementation, **options
                )
            )
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # user code may raise SystemExit, and that is a failed step too
            return watched, None, error
        longest_s = max(longest_s, time.monotonic() - begun_s)
    return watched, None, None


def _excuse_empty(tried: Tried) -> None:
    """Name an error that only a window without any target leads to: the concatenated batch has no mean there either."""
    if isinstance(tried.error, ArithmeticError) and len(tried.watched) == len(CASES) - 1:
        tried.notes.append(f"a window without any target raises {described(tried.error)}: have the step skip it")
        tried.error = None


def _planned(watched: Sequence[Watched]) -> list[Seen]:
    return [seen for one in watched for seen in one.watch.seen if seen.window is not None]


def _largest_error(watched: Sequence[Watched]) -> float:
    return max((seen.gradient_error for seen in _planned(watched)), default=math.inf)


def _own_clip(watched: Sequence[Watched]) -> float | None:
    """Give the norm that a step clips to without being asked; None where it does not.

    Every wrong gradient must then be the right one made shorter, all of one norm, and no right one longer.
    """
    seen = _planned([one for one in watched if not one.is_clipped])
    short = [each for each in seen if each.gradient_error > TOLERANCE]
    if len(short) < 2 or not all(each.norm > each.given_norm > 0 for each in short):
        return None
    if not all(abs(each.gradient_error - (1 - each.given_norm / each.norm)) < TOLERANCE for each in short):
        return None
    norms = [each.given_norm * (each.norm + 1e-6) / each.norm for each in short]
    is_one = max(norms) - min(norms) < _SAME_NORM * min(norms)
    is_longest = all(each.norm <= min(norms) * (1 + _SAME_NORM) for each in seen if each not in short)
    return norms[0] if is_one and is_longest else None
