"""Phrase recommendations in a few lines, as for the end of a sweep."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import pyarrow as pa

from bench.decide.recommend import Question, Recommendation, recommend
from bench.decide.recommend_output import speed_interval_words
from bench.errors import BenchError
from bench.report.emulated import emulation_words
from bench.report.launch_rows import Row
from bench.report.launches import launches_of
from bench.report.problem import problem_columns, problems_of
from bench.report.work_rate import unit_words
from bench.sweep.names import clean
from bench.units import counted, format_bytes, format_rate, hours_text, listed, tokens_text

_MOST_PROBLEMS = 6
"""Training problems that get a line each."""


def recommendation_lines(table: pa.Table) -> list[str]:
    """Say in two to six lines what to run, one for each training problem; where there is no answer, why."""
    rows = launches_of(table)
    emulated = emulation_words(rows)
    return [*_answer_lines(rows), *([emulated] if emulated else [])]


def _answer_lines(rows: Sequence[Row]) -> list[str]:
    try:
        result = recommend(rows, Question())
    except BenchError as error:
        return lines_by_problem(rows, Question()) or textwrap.wrap(_no_answer(error), 100, subsequent_indent="  ")
    return _lines(result)


def lines_by_problem(rows: Sequence[Row], question: Question) -> list[str]:
    """Say what to run for each of several training problems, one line each; empty where there is but one."""
    problems = problems_of(rows)
    if len(problems) == 1:
        return []
    columns = ", ".join(problem_columns(rows))
    if len(problems) > _MOST_PROBLEMS:
        many = f"{len(problems):,} training problems, which differ in {columns}"
        return [f"no recommendation: {many}; choose one, such as {problems[0].options}"]
    lines = []
    for problem in problems:
        try:
            result = recommend(problem.rows, question)
            line = "; ".join([_run_line(result), *_but(result)])
        except BenchError as error:
            line = _no_answer(error)
        lines.append(clean(f"{problem.name}: {line}"))
    return [*lines, f"one line per training problem: another {columns} trains something else"]


def _no_answer(error: BenchError) -> str:
    first, *rest = str(error).splitlines()
    more = f" {rest[0].strip()}" if first.endswith(":") and rest else ""
    return f"no recommendation: {first}{more}"


def _run_line(result: Recommendation) -> str:
    projection = result.projection
    fastest = "run" if not result.standing("tie") else "run (least memory of the ties)"
    speed = f"{format_rate(projection.valid_tokens_per_s, unit_words([result.choice.row]))}{_plus_minus(result)}"
    unit = unit_words([result.choice.row])
    hours = f"{hours_text(projection.hours.amount)} per {tokens_text(projection.run_tokens)} {unit}"
    peak = format_bytes(result.choice.peak_bytes)
    doubts = f" ({'; '.join(result.doubts)})" if result.doubts else ""
    return f"{fastest} {clean(result.choice.name + doubts)}: {speed}, {peak} peak, {hours}"


def _but(result: Recommendation) -> list[str]:
    """Say in one line what else a reader must know before acting on the choice; empty for nothing."""
    words = [f"flagged {', '.join(result.flags)}"] if result.flags else []
    if result.choice.extrapolation is not None:
        words.append(result.choice.extrapolation)
    if result.updates_skipped:
        words.append(f"{result.updates_skipped} timed updates skipped by the gradient scaler")
    if missing := result.projection.rounds_missing:
        words.append(f"not measured in {missing} of {result.projection.rounds + missing} rounds")
    return [clean(f"but {'; '.join(words)}")] if words else []


def _lines(result: Recommendation) -> list[str]:
    projection, lines = result.projection, [_run_line(result)]
    rivals = [*result.standing("tie"), *result.standing("open")]
    if rivals:
        names = listed([other.configuration.name for other in rivals], 3)
        rounds = counted(projection.rounds, "round")
        lines.append(clean(f"may be as fast, {rounds} cannot tell: {names}"))
    if projection.rounds < 2:
        lines.append("one round gives no interval: measure 3 or more (measure.rounds) before a long run")
    elif not rivals and (runner_up := result.runner_up) is not None:
        lines.append(clean(f"runner-up {runner_up.configuration.name}: {runner_up.why}"))
    return lines + _but(result)


def _plus_minus(result: Recommendation) -> str:
    words = speed_interval_words(result.projection)
    return f" (95 %: {words})" if words else ""
