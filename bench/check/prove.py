"""Prove one configuration: make the model, run the cases, read the checklist."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

from torch import nn

from bench.check import checklist, native_lines
from bench.check.cases import CASES
from bench.check.exchange.lines import TITLES, Line, Verdict, failed, unproven
from bench.check.exchange.request import ProofRequest
from bench.check.float32 import ROUNDING, InDouble
from bench.check.native import NativeStep
from bench.check.own_batches import prove_own_batches
from bench.check.precision_line import precision_line
from bench.check.step import Step, make_step
from bench.check.subject import Subject, TooLarge, is_random_at_rest, reentrant_hint, subject_of, unequal_layers
from bench.check.trial_run import Watched
from bench.check.trying import Tried, run_cases, try_step
from bench.errors import BenchError
from bench.loop import Agreement, SingleRankAgreement
from bench.units import listed
from bench.workload.user_code import load
from bench.workload.user_errors import NoSuchNameError, described

Validate = Callable[[nn.Module, Subject], tuple[float, float]]
"""Gives (validation loss in micro-batches, of one concatenated batch), both in float64."""


def prove(request: ProofRequest, agreement: Agreement | None = None, validate: Validate | None = None) -> list[Line]:
    """Give the checklist of one configuration; never raises what the user's code can raise [one rank].

    Args:
        request: What to prove.
        agreement: How ranks agree on windows; None on one rank.
        validate: The validation of `bench`; None where it is not proved.

    Raises:
        NoSuchNameError: There is no such model, or no such step.
    """
    deadline_s = time.monotonic() + request.time_limit_s
    if request.own is not None:
        return in_order(prove_own_batches(request, agreement or SingleRankAgreement(), _layers_line))
    try:
        subject = subject_of(request)
        step = None if request.step is None else make_step(load(request.step, "--step"), request.step)
    except TooLarge as reason:
        return unproven(str(reason))
    except NoSuchNameError as error:
        if request.user_code is None:  # named on the command line
            raise
        return failed(str(error))
    except BenchError as error:
        return failed(str(error))
    if step is not None:
        ranks = agreement or SingleRankAgreement()
        return prove_step(step, subject, deadline_s, ranks.world_size, ranks.rank)
    return prove_loop(request, subject, deadline_s, agreement or SingleRankAgreement(), validate)


def prove_step(step: Step, subject: Subject, deadline_s: float, world_size: int = 1, rank: int = 0) -> list[Line]:
    """Prove a training step through the protocol of `bench.check.step` [one rank].

    On several ranks only the cases are run: what a step does of its own was found out on one.
    """
    is_random = is_random_at_rest(subject)
    if world_size == 1:
        tried = try_step(step, subject, deadline_s, is_random)
    else:
        tried = Tried(*run_cases(step, subject, deadline_s, world_size, rank))
    if tried.error is not None:
        return failed(_raised(tried.error, subject))
    on_ranks = f" on {world_size} ranks, and on one" if world_size > 1 else ""
    ended = f"{len(tried.watched)} of {len(CASES)} cases ended{on_ranks}{_note(subject)}"
    lines = [_runs_line(tried, "; ".join([ended, *tried.notes]))]
    lines += [_with_rounding(line, tried) for line in _common_lines(tried.watched, subject, tried, is_random)]
    lines += [
        Line("counters", "NOT APPLICABLE", None, "the step reports none"),
        Line("gradient_sync", "NOT APPLICABLE", None, "the step does not count its own"),
        Line("validation", "NOT APPLICABLE", None, "the step makes none"),
    ]
    return in_order(lines)


def prove_loop(
    request: ProofRequest, subject: Subject, deadline_s: float, agreement: Agreement, validate: Validate | None
) -> list[Line]:
    """Prove the loop of `bench` as this configuration uses it."""
    native = NativeStep(
        None if subject.class_weights is None else subject.class_weights.double(),
        request.window_mode,
        request.gradient_sync,
        has_scaler=request.amp_mode == "fp16",
        agreement=agreement,
    )
    step = make_step(native)
    # Models of transformers cast to float32 inside, which would hide nine digits.
    with contextlib.nullcontext() if request.hf is None else InDouble():
        tried = Tried(
            *run_cases(
                step,
                subject,
                deadline_s,
                agreement.world_size,
                agreement.rank,
                implementations={request.optimizer: request.optimizer_implementation},
                weight_decay=request.weight_decay,
            )
        )
    watched = tried.watched
    if tried.error is not None:
        return failed(_raised(tried.error, subject))
    ranks = "one rank" if agreement.world_size == 1 else f"{agreement.world_size} ranks, and on one"
    ended = f"{len(watched)} of {len(CASES)} cases finished on {ranks}{_note(subject)}"
    lines = [_runs_line(tried, ended)]
    lines += _common_lines(watched, subject, tried, is_random_at_rest(subject))
    if watched:
        lines.append(native_lines.counters_line(native, watched, agreement.world_size))
        lines.append(native_lines.sync_line(native, watched, agreement.world_size))
    del watched, tried
    if agreement.world_size == 1:
        lines.append(_in_precision(request, subject, deadline_s))
        lines.append(_validation(subject, validate))
    return in_order(lines)


def _runs_line(tried: Tried, words: str) -> Line:
    """Say that the step runs, unless the time was up before it was tried."""
    if not tried.watched and tried.reason is not None:
        return Line("runs", "NOT PROVEN", None, tried.reason)
    return Line("runs", "PASS", float(len(tried.watched)), words)


def in_order(lines: Sequence[Line]) -> list[Line]:
    """Put lines into the order of the checklist."""
    order = list(TITLES)
    return sorted(lines, key=lambda line: order.index(line.name))


def _common_lines(watched: Sequence[Watched], subject: Subject, tried: Tried, is_random: bool) -> list[Line]:
    """Read the lines that a black box shows; a passing one of too few cases is not proved."""
    weighting = checklist.weighting_line(watched)
    parameters = checklist.parameters_line(watched)
    if parameters.verdict == "FAIL":
        parameters = checklist.parameters_line(watched, reentrant_hint(subject))
    lines = [
        checklist.examples_line(watched),
        weighting,
        checklist.update_line(watched, weighting, tried.cut),
        checklist.clipping_line(watched, weighting),
        checklist.schedule_line(watched, tried.cut),
        parameters,
    ]
    if tried.reason is not None:
        lines = [_unless_failed(line, tried.reason) for line in lines]
    elif is_random:
        lines = [_unless_failed(line, "the forward pass is random", even_failed=True) for line in lines]
    return [*lines, _layers_line(subject, is_random)]


def _with_rounding(line: Line, tried: Tried) -> Line:
    """Say of a line in which casts to float32 stand what they do to it."""
    if tried.rounding is None or line.name not in ("weighting", "update", "clipping"):
        return line
    if tried.is_rounding_left_out:
        if line.name != "weighting":
            return line
        words = f"{line.words}; with the step's float32 cast left out, and {tried.rounding:.1e} with it"
        return Line(line.name, line.verdict, line.figure, words)
    if line.verdict == "FAIL" and line.figure is not None and line.figure <= ROUNDING:
        words = f"relative error {line.figure:.1e}: right to that, as far as a float32 cast lets see"
        return Line(line.name, "NOT PROVEN", line.figure, words)
    return line


def _raised(error: BaseException, subject: Subject) -> str:
    """Say what was raised, where, and what is known of it."""
    if isinstance(error, BenchError):
        return str(error)
    words = described(error)
    if "does not require grad" in str(error):
        hint = reentrant_hint(subject)
        return f"{words}; {hint}" if hint else words
    return words


def _unless_failed(line: Line, reason: str, even_failed: bool = False) -> Line:
    if line.verdict == "NOT APPLICABLE" or (line.verdict == "FAIL" and not even_failed):
        return line
    return Line(line.name, "NOT PROVEN", None, reason)


def _layers_line(subject: Subject, is_random: bool) -> Line:
    """Name the layers for which accumulation is not a larger batch; the rest is proved with them in eval mode."""
    if is_random:
        words = "two forward passes on the same data differ, and no layer known to be random is the cause"
        return Line("layers", "NOT PROVEN", None, words)
    named = unequal_layers(subject)
    if named:
        words = listed(named, 3, "; ")
        return Line(
            "layers",
            "NOT PROVEN",
            float(len(named)),
            f"{words}; the other lines are proved with these layers in eval mode",
        )
    return Line("layers", "PASS", 0.0, "none found")


def _in_precision(request: ProofRequest, subject: Subject, deadline_s: float) -> Line:
    if time.monotonic() > deadline_s:
        return Line("precision", "NOT PROVEN", None, "the float64 cases used up the time limit")
    try:
        return precision_line(subject, request.amp_mode, request.device, request.window_mode)
    except ValueError as error:  # a mode that the loop refuses for this model, such as fp16 with fp16 weights
        return Line("precision", "NOT PROVEN", None, str(error))


def _validation(subject: Subject, validate: Validate | None) -> Line:
    if validate is None:
        return Line("validation", "NOT APPLICABLE", None, "no validation was given")
    cut, whole = validate(subject.fresh(), subject)
    error = abs(cut - whole) / abs(whole)
    verdict: Verdict = "PASS" if error <= 1e-10 else "FAIL"
    return Line("validation", verdict, error, f"relative error {error:.1e}, micro-batches against one batch")


def _note(subject: Subject) -> str:
    return f"; the model was {subject.note}" if subject.note else ""
