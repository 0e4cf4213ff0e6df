"""Write one self-contained HTML page that answers a sweep's question, to send to a colleague. No network, ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from bench.decide.question import Question
from bench.decide.recommend import Recommendation, recommend
from bench.decide.recommend_summary import lines_by_problem
from bench.errors import BenchError
from bench.page.answer import answer, title
from bench.page.chart import chart_script, chart_spec
from bench.page.data import PageRow, chart_points, entry, page_rows
from bench.page.document import document
from bench.page.figures import chart, more_figures
from bench.page.sections import failures, laws, machine, reproduce
from bench.page.table import table as configurations_table
from bench.report.configurations import configurations_of
from bench.report.launches import launches_of
from bench.report.points import Row

_MOST_ROWS = 400
"""Configurations in the page; where there are more, the best and one of each reason are kept."""


@dataclass(frozen=True)
class Page:
    """Hold a page, and how much of the results it shows."""

    text: str
    """The whole HTML document."""
    shown: int
    """Configurations in it."""
    total: int
    """Configurations in the results."""
    is_interactive: bool
    """Whether its chart is interactive, which needs the extra [report]."""


def build_page(table: pa.Table, question: Question | None = None, interactive: bool = True) -> Page:
    """Build the page of these results.

    Args:
        table: What `select_table` gave.
        question: What is asked of `recommend`; where it has no answer the page says why.
        interactive: Whether to make the chart interactive, where the extra [report] is installed.

    Raises:
        BenchError: There are no rows.
    """
    launches = launches_of(table)
    if not launches:
        raise BenchError("nothing to report: no row matches the conditions.")
    configurations = configurations_of(launches)
    question = question or Question()
    result, no_answer = _answer(launches, question)
    by_problem = lines_by_problem(launches, question) if result is None else []
    rows = page_rows(configurations, result)
    shown = _summarised(rows)
    some = _only(table, shown)
    entries = [entry(row) for row in shown]
    script = chart_script() if interactive else None
    points = chart_points(shown)
    data = {
        "choice": "c0" if result is not None else None,
        "chart": chart_spec(points) if script and points else None,
        "configurations": entries,
    }
    body = [
        answer(result, no_answer, by_problem, launches),
        chart(some, script is not None, bool(points)),
        configurations_table(rows, shown, entries),
        failures(configurations),
        laws(launches),
        more_figures(table),
        reproduce(result),
        machine(table),
    ]
    text = document(title(result, launches), body, data, script if data["chart"] is not None else None)
    return Page(text, len(shown), len(rows), data["chart"] is not None)


def _answer(launches: Sequence[Row], question: Question) -> tuple[Recommendation | None, str]:
    try:
        return recommend(launches, question), ""
    except BenchError as error:
        return None, str(error)


def _summarised(rows: Sequence[PageRow]) -> list[PageRow]:
    """Keep the first so many, and of the rest one of each reason, so that every kind of failure is seen."""
    shown, seen = list(rows[:_MOST_ROWS]), {row.why for row in rows[:_MOST_ROWS]}
    for row in rows[_MOST_ROWS:]:
        if row.standing == "out" and row.why not in seen and len(shown) < _MOST_ROWS + 50:
            seen.add(row.why)
            shown.append(row)
    return shown


def _only(table: pa.Table, shown: Sequence[PageRow]) -> pa.Table:
    trials = {row.configuration.row["trial_id"] for row in shown}
    return table.filter(pc.is_in(table.column("trial_id"), value_set=pa.array(sorted(trials))))
