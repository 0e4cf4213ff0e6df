"""Decide which configurations are in the running for a recommendation, and whether they may be ranked together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from bench.decide.question import Question
from bench.errors import BenchError
from bench.report.configurations import Configuration
from bench.report.fit import NOT_JUDGED, fit_of, fits_of
from bench.report.launch_rows import Row, column_of, distinct_of
from bench.report.machines import WORK, differences, machine_differences, machine_key, machine_keys, thread_differences
from bench.report.problem import PROBLEM, Problem, problem_columns, problems_of
from bench.units import listed

_MOST_PROBLEMS = 8
"""Training problems listed."""
_DISQUALIFYING = {
    "throttled_hw": "the GPU throttled, so the speed does not count",
    "not_compiled": "it ran eager code, so the speed is not that of a compiled model",
    "no_gradient": "trainable parameters got no gradient, so it does not train what was asked",
}
_SAME_DATA = tuple(name for name in WORK if name not in PROBLEM)
"""What must be equal besides the settings: model and data can change under one name."""


def reasons_out(rows: Sequence[Row], configurations: Sequence[Configuration], question: Question) -> dict[int, str]:
    """Say by id why configurations are not in the running; only launches that give cause are looked at closely.

    Where something is proven, what is not proven is out; of the rest, where something is known to fit, what is not
    known to fit. Neither happens with `accept_unproven`, or where nothing would be left.
    """
    fits = fits_of(rows, question.headroom)
    flags_of, proof_of = column_of(rows, "flags"), column_of(rows, "proof")
    causes = zip(rows, fits, flags_of, proof_of, strict=True)
    doubtful = {id(row) for row, fit, flags, proof in causes if fit is False or flags or proof == "FAIL"}
    reasons = {}
    for one in configurations:
        why = _why_not_asked(one, question) or one.fault
        if why is None and any(id(launch) in doubtful for launch in one.launches):
            why = _why_unfit(one, question.headroom)
        if why is None and not one.speeds:
            why = one.no_speed
        if why is not None:
            reasons[id(one)] = why
    if question.accept_unproven:
        return reasons
    ok = [outcome == "ok" for outcome in column_of(rows, "outcome")]
    unproven = {id(row) for row, is_ok, proof in zip(rows, ok, proof_of, strict=True) if is_ok and proof != "PASS"}
    for one in _second_to(configurations, reasons, unproven):
        reasons[id(one)] = f"{proof_doubt(one)}; others are proven"
    unknown = {id(row) for row, is_ok, fit in zip(rows, ok, fits, strict=True) if is_ok and fit is None}
    for one in _second_to(configurations, reasons, unknown):
        words = fit_of(one.launches, question.headroom).words.removeprefix(NOT_JUDGED)
        reasons[id(one)] = f"not known to fit: {words}; others are known to fit"
    return reasons


def _second_to(
    configurations: Sequence[Configuration], out: Mapping[int, str], doubtful: Set[int]
) -> list[Configuration]:
    """List those in the running with a doubtful launch; none where all have one, so that something stays."""
    running = [one for one in configurations if id(one) not in out] if doubtful else []
    doubts = [one for one in running if any(id(launch) in doubtful for launch in one.launches)]
    return doubts if len(doubts) < len(running) else []


def proof_doubt(one: Configuration) -> str | None:
    """Say why it is not proven that the configuration accumulates the update of the global batch; null when it is."""
    proofs = {launch.get("proof") for launch in one.launches if launch["outcome"] == "ok"}
    if proofs == {"PASS"}:
        return None
    if None in proofs:
        return "not proven: no accumulation proof was run"
    return f"not proven: its accumulation proof says {', '.join(sorted(map(str, proofs)))}"


def _why_not_asked(one: Configuration, question: Question) -> str | None:
    batch, ranks = one.row.get("global_batch_size"), one.row.get("world_size")
    if question.global_batch_size is not None and batch != question.global_batch_size:
        return f"global batch {batch}, not {question.global_batch_size}"
    if question.gpus is None:
        return None
    if ranks is None:
        return f"its number of ranks was not recorded and may exceed --gpus {question.gpus}"
    return f"needs {ranks} ranks, more than --gpus {question.gpus}" if ranks > question.gpus else None


def _why_unfit(one: Configuration, headroom: float) -> str | None:
    if "FAIL" in {launch.get("proof") for launch in one.launches}:
        return "its accumulation proof failed: the update is not the global batch's"
    fit = fit_of(one.launches, headroom)
    if fit.fits is False:
        return f"does not fit: {fit.words}"
    for flag, why in _DISQUALIFYING.items():
        if any(flag in (launch.get("flags") or []) for launch in one.launches):
            return f"flagged {flag}: {why}{_named(one, flag)}"
    return None


def _named(one: Configuration, flag: str) -> str:
    names = {name for launch in one.launches for name in launch.get("parameters_without_gradient") or []}
    return f" ({listed(sorted(names), 3)})" if flag == "no_gradient" and names else ""


def refuse_unlike(rows: Sequence[Row], running: Sequence[Configuration]) -> None:
    """Refuse to rank what trains different things, or was measured on unlike machines.

    Args:
        rows: All rows, the quickest to look at.
        running: The configurations that would be ranked.

    Raises:
        BenchError: They may not be ranked together; says why, and how to choose some.
    """
    if not set(problem_columns(rows)) <= {"global_batch_size"}:
        problems = problems_of([one.row for one in running])
        if len(problems) > 1:
            raise BenchError("\n".join(several_problems_lines(problems)))
    if why := unlike_words(rows, running):
        raise BenchError(why)


def unlike_words(rows: Sequence[Row], running: Sequence[Configuration]) -> str:
    """Say why the speeds of configurations do not compare: unlike machines, other work; empty when they do."""
    if len(set(machine_keys(rows))) == 1 and all(len(distinct_of(rows, name)) == 1 for name in _SAME_DATA):
        return ""
    first = running[0].row
    kinds = {(machine_key(one.row), *(one.row.get(name) for name in _SAME_DATA)): one for one in running}
    for one in kinds.values():
        if machine := machine_differences(first, one.row):
            return (
                f"the results come from different machines ({', '.join(machine)}), so their speeds are not comparable. "
                f"Choose one with --where."
            )
        if work := differences(first, one.row, _SAME_DATA):
            return f"the same settings did different work ({', '.join(work)}). Choose one with --where."
    alike: dict[tuple[object, ...], Row] = {}
    for one in running:
        like = alike.setdefault((one.row.get("world_size"), one.row.get("cpu_threads_per_rank")), one.row)
        if threads := thread_differences(like, one.row):
            return (
                f"the results were measured with different numbers of threads, which no setting asked for "
                f"({', '.join(threads)}), so their speeds are not comparable. Choose one with --where."
            )
    return ""


def several_problems_lines(problems: Sequence[Problem]) -> list[str]:
    """Say that results hold several training problems, and how to choose each."""
    columns = ", ".join(condition.split(" ", 1)[0] for condition in problems[0].conditions)
    head = (
        f"the results hold {len(problems):,} training problems, which differ in {columns}: "
        "their configurations train different things. Choose one:"
    )
    lines = [head, *(f"  {problem.options}" for problem in problems[:_MOST_PROBLEMS])]
    return lines + ([f"  and {len(problems) - _MOST_PROBLEMS:,} more"] if len(problems) > _MOST_PROBLEMS else [])
