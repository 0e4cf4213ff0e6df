"""Decide which configurations are in the running for a recommendation, and whether they may be ranked together."""

from __future__ import annotations

from collections.abc import Sequence

from bench.errors import BenchError
from bench.report.configurations import Configuration
from bench.report.fit import fit_of, may_not_fit
from bench.report.launch_rows import Row, column_of, distinct_of
from bench.report.machines import WORK, differences, machine_differences, machine_key, machine_keys
from bench.report.problem import PROBLEM, Problem, problem_columns, problems_of

_MOST_PROBLEMS = 8
"""Training problems listed."""
_DISQUALIFYING = ("throttled_hw",)
_SAME_DATA = tuple(name for name in WORK if name not in PROBLEM)
"""What must be equal besides the settings: model and data can change under one name."""


def reasons_out(
    rows: Sequence[Row], configurations: Sequence[Configuration], batch: int, gpus: int | None, headroom: float
) -> dict[int, str]:
    """Say by id why configurations are not in the running; only launches that give cause are looked at closely."""
    flags_of, proof_of = column_of(rows, "flags"), column_of(rows, "proof")
    causes = zip(rows, may_not_fit(rows, headroom), flags_of, proof_of, strict=True)
    doubtful = {id(row) for row, may_not, flags, proof in causes if may_not or flags or proof == "FAIL"}
    reasons = {}
    for one in configurations:
        why = _why_not_asked(one, batch, gpus) or one.fault
        if why is None and any(id(launch) in doubtful for launch in one.launches):
            why = _why_unfit(one, headroom)
        if why is None and not one.speeds:
            why = "no throughput was measured"
        if why is not None:
            reasons[id(one)] = why
    return reasons


def _why_not_asked(one: Configuration, batch: int, gpus: int | None) -> str | None:
    if one.row.get("global_batch_size") != batch:
        return f"global batch {one.row.get('global_batch_size')}, not {batch}"
    if gpus is not None and (one.row.get("world_size") or 0) > gpus:
        return f"needs {one.row.get('world_size')} ranks, more than {gpus}"
    return None


def _why_unfit(one: Configuration, headroom: float) -> str | None:
    if "FAIL" in {launch.get("proof") for launch in one.launches}:
        return "its accumulation proof failed: the update is not that of the global batch"
    fit = fit_of(one.launches, headroom)
    if fit.fits is False:
        return f"does not fit: {fit.words}"
    for flag in _DISQUALIFYING:
        if any(flag in (launch.get("flags") or []) for launch in one.launches):
            return f"flagged {flag}: its speed is not that of the configuration"
    return None


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
    if len(set(machine_keys(rows))) == 1 and all(len(distinct_of(rows, name)) == 1 for name in _SAME_DATA):
        return
    first = running[0].row
    kinds = {(machine_key(one.row), *(one.row.get(name) for name in _SAME_DATA)): one for one in running}
    for one in kinds.values():
        if machine := machine_differences(first, one.row):
            raise BenchError(
                f"the results come from unlike machines ({', '.join(machine)}), so their speeds do not compare. "
                f"Choose one with --where."
            )
        if work := differences(first, one.row, _SAME_DATA):
            raise BenchError(
                f"the results hold different work under the same settings ({', '.join(work)}). Choose one with --where."
            )


def several_problems_lines(problems: Sequence[Problem]) -> list[str]:
    """Say that results hold several training problems, and how to choose each."""
    columns = ", ".join(condition.split(" ", 1)[0] for condition in problems[0].conditions)
    head = (
        f"the results hold {len(problems):,} training problems, which differ in {columns}: "
        "a configuration of one is no alternative to one of another. Choose one:"
    )
    lines = [head, *(f"  {problem.options}" for problem in problems[:_MOST_PROBLEMS])]
    return lines + ([f"  and {len(problems) - _MOST_PROBLEMS:,} more"] if len(problems) > _MOST_PROBLEMS else [])
