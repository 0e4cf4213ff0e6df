"""Prove one configuration: make the model, run the cases, read the checklist."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from torch import nn

from bench.check import checklist, native_lines
from bench.check.cases import CASES
from bench.check.exchange.lines import TITLES, Line, Verdict, failed, unproven
from bench.check.exchange.request import ProofRequest
from bench.check.native import NativeStep
from bench.check.precision_line import precision_line
from bench.check.step import Step, load, make_step
from bench.check.subject import Subject, TooLarge, is_random_at_rest, make_subject, unequal_layers
from bench.check.trial_run import Watched, run_case
from bench.errors import BenchError
from bench.loop import Agreement, SingleRankAgreement
from bench.units import listed

Validate = Callable[[nn.Module, Subject], tuple[float, float]]
"""Gives (validation loss in micro-batches, of one concatenated batch), both in float64."""


def prove(request: ProofRequest, agreement: Agreement | None = None, validate: Validate | None = None) -> list[Line]:
    """Give the checklist of one configuration; never raises what the user's code can raise [one rank].

    Args:
        request: What to prove.
        agreement: How ranks agree on windows; None on one rank.
        validate: The validation of `bench`; None where it is not proved.
    """
    deadline_s = time.monotonic() + request.time_limit_s
    try:
        subject = make_subject(request.model, request.seed, request.activation_checkpointing, request.param_dtype)
        step = None if request.step is None else make_step(load(request.step, "--step"), request.step)
    except TooLarge as reason:
        return unproven(str(reason))
    except BenchError as error:
        return failed(str(error))
    if step is not None:
        return prove_step(step, subject, deadline_s)
    return prove_loop(request, subject, deadline_s, agreement or SingleRankAgreement(), validate)


def prove_step(step: Step, subject: Subject, deadline_s: float) -> list[Line]:
    """Prove a training step through the protocol of `bench.check.step`."""
    watched, reason = _run_cases(step, subject, deadline_s, 1, 0)
    if isinstance(reason, BaseException):
        return failed(f"{type(reason).__name__}: {str(reason).splitlines()[0] if str(reason) else 'no message'}")
    lines = [
        Line("runs", "PASS", float(len(watched)), f"{len(watched)} of {len(CASES)} cases finished{_note(subject)}")
    ]
    lines += _common_lines(watched, subject, reason)
    lines += [
        Line("counters", "NOT APPLICABLE", None, "the step reports no counters"),
        Line("gradient_sync", "NOT APPLICABLE", None, "the step ran on one rank"),
        Line("validation", "NOT APPLICABLE", None, "the step has no validation"),
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
    watched, reason = _run_cases(
        step,
        subject,
        deadline_s,
        agreement.world_size,
        agreement.rank,
        implementation={request.optimizer: request.optimizer_implementation},
        weight_decay=request.weight_decay,
    )
    if isinstance(reason, BaseException):
        return failed(f"{type(reason).__name__}: {reason}")
    ranks = "one rank" if agreement.world_size == 1 else f"{agreement.world_size} ranks, and on one"
    ended = f"{len(watched)} of {len(CASES)} cases finished on {ranks}{_note(subject)}"
    lines = [Line("runs", "PASS", float(len(watched)), ended)]
    lines += _common_lines(watched, subject, reason)
    if watched:
        lines.append(native_lines.counters_line(native, watched, agreement.world_size))
        lines.append(native_lines.sync_line(native, watched, agreement.world_size))
    del watched
    if agreement.world_size == 1:
        lines.append(_in_precision(request, subject, deadline_s))
        lines.append(_validation(subject, validate))
    return in_order(lines)


def in_order(lines: Sequence[Line]) -> list[Line]:
    """Put lines into the order of the checklist."""
    order = list(TITLES)
    return sorted(lines, key=lambda line: order.index(line.name))


def _run_cases(
    step: Step,
    subject: Subject,
    deadline_s: float,
    world_size: int,
    rank: int,
    implementation: dict[str, str] | None = None,
    weight_decay: float = 0.1,
) -> tuple[list[Watched], str | BaseException | None]:
    """Run the cases that time allows; say why the rest did not run, or give what the step raised."""
    watched: list[Watched] = []
    longest_s = 0.0
    for case in CASES:
        begun_s = time.monotonic()
        # Several ranks must come to the same decision: the clock of one may not stop it alone.
        if world_size == 1 and begun_s + longest_s > deadline_s:
            return watched, f"the time limit was used up after {len(watched)} of {len(CASES)} cases"
        try:
            watched.append(
                run_case(
                    case,
                    subject,
                    step,
                    world_size=world_size,
                    rank=rank,
                    implementation=(implementation or {}).get(case.optimizer, "for_loop"),
                    weight_decay=weight_decay,
                )
            )
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # user code may raise SystemExit, and that is a failed step too
            return watched, error
        longest_s = max(longest_s, time.monotonic() - begun_s)
    return watched, None


def _common_lines(watched: Sequence[Watched], subject: Subject, reason: str | None) -> list[Line]:
    """Read the lines that need no knowledge of the step; one that passes in too few cases is not proved."""
    is_random = is_random_at_rest(subject)
    weighting = checklist.weighting_line(watched)
    lines = [
        checklist.examples_line(watched),
        weighting,
        checklist.update_line(watched, weighting),
        checklist.clipping_line(watched, weighting),
        checklist.schedule_line(watched),
        checklist.parameters_line(watched),
    ]
    if reason is not None:
        lines = [_unless_failed(line, reason) for line in lines]
    elif is_random:
        lines = [_unless_failed(line, "the forward pass is random", even_failed=True) for line in lines]
    return [*lines, _layers_line(subject, is_random)]


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
