"""Write one self-contained HTML page that answers a sweep's question, to send to a colleague. No network, ever."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench.decide.law import fit_laws
from bench.decide.recommend import Question, Recommendation, recommend
from bench.decide.recommend_lines import lines_by_problem
from bench.decide.reproduce import sweep_file_lines, torchrun_lines
from bench.errors import BenchError
from bench.page.chart import chart_script, chart_spec
from bench.page.data import PageRow, chart_points, entry, page_rows
from bench.plots.draw import draw_plots
from bench.report.configurations import Configuration, configurations_of
from bench.report.launches import launches_of
from bench.report.people import clean, distinct
from bench.report.phrases import hours_text, tokens_text
from bench.report.points import Row, extra_axes, facts_of, name_of
from bench.report.table import finite
from bench.units import format_bytes, format_rate

_MOST_ROWS = 400
"""Configurations in the page; where there are more, the best and one of each reason are kept."""
_MOST_LAWS = 12
_FIGURES = ("heat-map", "scaling", "memory-breakdown", "energy")
_MOST_LAUNCHES_DRAWN = 3000
_FACTS = (
    *("gpu_name", "cpu_model", "cpu_count", "hostname", "driver_version", "cuda_version", "cudnn_version"),
    *("nccl_version", "torch_version", "python_version", "bench_version", "measurement_version", "time_method"),
    *("memory_method", "corpus_hash"),
)
_COLUMNS = (
    ("name", "configuration", ""),
    ("speed", "valid tokens/s", "number"),
    ("peak", "peak memory", "number"),
    ("standing", "standing", ""),
    ("loss", "train loss", "number"),
    ("rounds", "rounds", "number"),
    ("proof", "proof", ""),
    ("why", "why not", ""),
)


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
        raise BenchError("nothing to report: no row meets the conditions.")
    configurations = configurations_of(launches)
    question = question or Question()
    result, no_answer = _answer(launches, question)
    by_problem = lines_by_problem(launches, question) if result is None else []
    rows = page_rows(configurations, result)
    shown = _summarised(rows)
    some = _only(table, shown)
    full = _full_launches(some, shown)
    entries = [entry(row, full.get(id(row), row.configuration.launches)) for row in shown]
    script = chart_script() if interactive else None
    points = chart_points(shown)
    data = {
        "choice": "c0" if result is not None else None,
        "chart": chart_spec(points) if script and points else None,
        "configurations": entries,
    }
    body = [
        _head(result, no_answer, by_problem, launches),
        _chart(some, script is not None, bool(points)),
        _table_html(rows, shown, entries),
        _failures(configurations),
        _laws(launches),
        _figures(table),
        _reproduce(result),
        _machine(table),
    ]
    text = _document(_title(result, launches), body, data, script if data["chart"] is not None else None)
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


def _full_launches(table: pa.Table, shown: Sequence[PageRow]) -> dict[int, list[Row]]:
    """Find the whole rows, all columns, of the launches that are shown."""
    by_launch: dict[tuple[Any, ...], Row] = {_launch_key(row): row for row in table.to_pylist()}
    return {
        id(row): [by_launch.get(_launch_key(launch), launch) for launch in row.configuration.launches] for row in shown
    }


def _launch_key(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("sweep", "trial_id", "round", "attempt", "started_utc", "hostname"))


def _title(result: Recommendation | None, launches: Sequence[Row]) -> str:
    sweeps = ", ".join(clean(str(name)) for name in distinct(launches, "sweep")[:3])
    return f"{sweeps}: {result.choice.name}" if result is not None else sweeps or "results"


def _head(result: Recommendation | None, no_answer: str, by_problem: Sequence[str], launches: Sequence[Row]) -> str:
    facts = " · ".join(facts_of(launches)) or f"{len(launches)} launches, none of them ok"
    if result is None and by_problem:
        *lines, note = by_problem
        each = "".join(f"<li>{_safe(line)}</li>" for line in lines)
        return f"<p class=quiet>{_safe(facts)}</p><h1>Several training problems</h1><ul>{each}</ul><p>{_safe(note)}</p>"
    if result is None:
        reason = "<br>".join(_safe(line) for line in no_answer.splitlines())
        return f"<p class=quiet>{_safe(facts)}</p><h1>No recommendation</h1><p>{reason}</p>"
    projection, choice = result.projection, result.choice
    rounds = f"{projection.rounds} round{'' if projection.rounds == 1 else 's'}"
    sure = "one round: no interval"
    hours_sure = "one round: no interval"
    if projection.valid_tokens_per_s_low and projection.valid_tokens_per_s_high:
        low, high = (
            format_rate(rate, "").removesuffix(" /s")
            for rate in (projection.valid_tokens_per_s_low, projection.valid_tokens_per_s_high)
        )
        sure = f"95 % interval {low} to {high}, {rounds}"
        hours_sure = (
            f"95 % interval {hours_text(projection.hours_low or 0)} to {hours_text(projection.hours_high or 0)}"
        )
    row = choice.row
    name = (
        f"Run {row.get('amp_mode')} with micro-batch {row.get('micro_batch_size')} \u00d7 "
        f"{row.get('accumulation_steps')} accumulation steps on {row.get('world_size')} "
        f"rank{'' if row.get('world_size') == 1 else 's'}"
    )
    boxes = [
        (format_rate(projection.valid_tokens_per_s, "valid tokens"), f"all ranks; {sure}"),
        (format_bytes(choice.peak_bytes), "peak allocated in tensors, worst rank"),
        (hours_text(projection.hours), f"per {tokens_text(projection.run_tokens)} valid tokens; {hours_sure}"),
        (str(row.get("proof") or "not run"), "proof that the update is that of the global batch"),
    ]
    cells = "".join(f"<div class=fact><b>{_safe(big)}</b><span>{_safe(small)}</span></div>" for big, small in boxes)
    caveats = "".join(f"<li>{_safe(caveat)}</li>" for caveat in result.caveats)
    box = f"<div class=caveats><ul>{caveats}</ul></div>" if caveats else ""
    second = _second(result)
    return f"<p class=quiet>{_safe(facts)}</p><h1>{_safe(name)}</h1><div class=facts>{cells}</div>{second}{box}"


def _second(result: Recommendation) -> str:
    """Name the runner-up, and the other ties."""
    runner_up = result.runner_up
    if runner_up is None:
        return ""
    role = {"tie": "Runner-up, a tie", "open": "Runner-up, not settled"}.get(runner_up.standing, "Runner-up")
    ties = [other.configuration.name for other in result.standing("tie") if other is not runner_up]
    more = f" and {len(ties) - 4} more" if len(ties) > 4 else ""
    tied = f" Also as fast, with no less memory: {', '.join(ties[:4])}{more}." if ties else ""
    return f"<p>{role}: <b>{_safe(runner_up.configuration.name)}</b>, {_safe(runner_up.why)}.{_safe(tied)}</p>"


def _chart(table: pa.Table, is_interactive: bool, has_points: bool) -> str:
    head = "<h2>Memory against throughput</h2>"
    if not has_points:
        return head + "<p>Nothing to draw: no configuration has both a throughput and a peak memory.</p>"
    if is_interactive:
        return (
            head + '<div id="chart" role="img" aria-label="Scatter of memory against throughput"></div>'
            "<p class=quiet>Line: the Pareto frontier, one for each training problem; nothing else of it is faster in "
            "as little memory. Hover for values, click a point for its details, click the legend to show one mode.</p>"
        )
    figures = _svg_figures(table, ("memory-throughput",))
    return head + "".join(figures) + "<p class=quiet>Installed with the extra [report], this chart is interactive.</p>"


def _table_html(rows: Sequence[PageRow], shown: Sequence[PageRow], entries: Sequence[dict[str, Any]]) -> str:
    heads = "".join(
        f'<th data-key="{key}" aria-sort="none" class="{kind}"><button type="button">{_safe(words)}</button></th>'
        for key, words, kind in _COLUMNS
    )
    standings = list(dict.fromkeys((one["standing"], one["standing"]) for one in entries))
    labels = {"open": "not settled", "out": "out: failed, unlike or refused"}
    options = "".join(f'<option value="{key}">{_safe(labels.get(key, key))}</option>' for key, _ in standings)
    summary = ""
    if len(shown) < len(rows):
        summary = (
            f"<p class=caveats>Summarised: {len(shown):,} of {len(rows):,} configurations, the best ones and one of "
            f"each reason for failing. <code>bench show</code> lists them all.</p>"
        )
    return (
        f"<h2>All configurations</h2>{summary}"
        '<div class=controls><input id="filter" type="search" placeholder="Filter, such as bf16 2 ranks" '
        'aria-label="Filter the table"><select id="standing" aria-label="Standing"><option value="">every standing'
        f'</option>{options}</select><span id="count" class=quiet aria-live="polite"></span></div>'
        f'<div class=scroll><table id="configurations"><thead><tr>{heads}</tr></thead><tbody></tbody></table></div>'
        "<p class=quiet>Click a row for all that was recorded of it. Standing: tie, as fast as far as the rounds "
        "can tell; not settled, may be as fast; slower, by more than chance explains, or by more than 10 % where there "
        "is only one round.</p>"
        '<section id="details" aria-live="polite" hidden></section>'
    )


def _failures(configurations: Sequence[Configuration]) -> str:
    reasons: dict[str, list[str]] = {}
    for one in configurations:
        if one.fault is not None:
            reasons.setdefault(one.fault, []).append(one.name)
    if not reasons:
        return ""
    lines = []
    for reason, names in list(reasons.items())[:40]:
        more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
        lines.append(f"<li><b>{_safe('; '.join(names[:5]))}{more}</b>: {_safe(reason)}</li>")
    if len(reasons) > 40:
        lines.append(f"<li>and {len(reasons) - 40:,} further reasons</li>")
    return f"<h2>What did not run, and why</h2><ul>{''.join(lines)}</ul>"


def _laws(launches: Sequence[Row]) -> str:
    """Say what the two-point law says of counts that were not measured, and where it fails."""
    laws = fit_laws(launches) if len(launches) <= _MOST_LAUNCHES_DRAWN else []
    if not laws:
        return ""
    extra = extra_axes([law.row for law in laws])
    lines = []
    for law in laws[:_MOST_LAWS]:
        steps = ", ".join(map(str, law.steps))
        name = name_of({**law.row, "accumulation_steps": "A"}, extra)
        fails = f" <b>Fails:</b> {_safe('; '.join(law.failures))}." if law.failures else ""
        lines.append(f"<li>{_safe(name)}, measured at A = {steps}: {_safe(law.sentence())}.{fails}</li>")
    more = f"<li>and {len(laws) - _MOST_LAWS} more</li>" if len(laws) > _MOST_LAWS else ""
    return (
        "<h2>Other accumulation counts: predicted, not measured</h2><p class=quiet>An update takes a fixed part and "
        f"one part per micro-step; A: accumulation steps.</p><ul>{''.join(lines)}{more}</ul>"
    )


def _figures(table: pa.Table) -> str:
    if len(table) > _MOST_LAUNCHES_DRAWN:
        return f"<p class=quiet>Further figures are left out: {len(table):,} launches are more than they can show.</p>"
    figures = _svg_figures(table, _FIGURES)
    return "<h2>More figures</h2>" + "".join(figures) if figures else ""


def _svg_figures(table: pa.Table, kinds: Sequence[str]) -> list[str]:
    with TemporaryDirectory() as folder:
        try:
            paths, _ = draw_plots(table, (), Path(folder), kinds)
        except BenchError:
            return []
        images = []
        for path in paths:
            if path.suffix == ".svg":
                content = base64.b64encode(path.read_bytes()).decode()
                name = path.stem.replace("_", " ")
                images.append(f'<div class=figure><img alt="{name}" src="data:image/svg+xml;base64,{content}"></div>')
        return images


def _reproduce(result: Recommendation | None) -> str:
    if result is None:
        return ""
    sweep = "\n".join(sweep_file_lines(result.choice.row))
    torchrun = "\n".join(torchrun_lines(result.choice.row))
    first = f"<p>As a sweep file</p><pre>{_safe(sweep)}</pre>"
    return f"<h2>Run it</h2>{first}<p>In your own script</p><pre>{_safe(torchrun)}</pre>"


def _machine(table: pa.Table) -> str:
    items = []
    for name in _FACTS:
        values = [value for value in pc.unique(table.column(name)).to_pylist() if value is not None]
        if values:
            more = f" and {len(values) - 6} more" if len(values) > 6 else ""
            shown = clean(", ".join(str(value) for value in values[:6])) + more
            items.append(f"<div><dt>{name.replace('_', ' ')}</dt><dd>{_safe(shown)}</dd></div>")
    return (
        f'<h2>Machine and versions</h2><section id="machine"><dl>{"".join(items)}</dl></section>'
        "<p class=quiet>Valid tokens: targets that count for the loss; padding is left out. Speeds: all ranks, whole "
        "updates, slowest rank, geometric mean over rounds. Bytes: 1 GiB = 1024<sup>3</sup>. Made by bench.</p>"
    )


def _document(title: str, body: Sequence[str], data: dict[str, Any], script: str | None) -> str:
    assets = files("bench.page") / "assets"
    css = (assets / "page.css").read_text()
    # "</" would end the script element, whatever JSON string it stands in.
    payload = json.dumps(finite(data), allow_nan=False, ensure_ascii=False, separators=(",", ":")).replace(
        "<", "\\u003c"
    )
    chart = f"<script>{script}</script>" if script is not None else ""
    # No origin is allowed at all: even a mistake of ours could not fetch anything.
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{_safe(title)}</title><style>{css}</style></head><body><main>{''.join(body)}</main>"
        f'<script id="data" type="application/json">{payload}</script>{chart}'
        f"<script>{(assets / 'page.js').read_text()}</script></body></html>\n"
    )


def _safe(text: str) -> str:
    return html.escape(clean(text) if "\n" not in text else text)
