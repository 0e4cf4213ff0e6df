"""Phrase a recommendation for people and for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.decide.per_token import Amount
from bench.decide.projection import Projection
from bench.decide.ranking import Other
from bench.decide.recommend import Recommendation
from bench.decide.reproduce import is_foreign, measure_of, sweep_file_lines, torchrun_lines
from bench.report.configurations import Configuration, speed_fields
from bench.report.points import Row
from bench.report.table import json_text
from bench.report.work_rate import unit_words
from bench.sweep.names import clean, value_words
from bench.units import (
    counted,
    format_bytes,
    format_count,
    format_rate,
    hours_text,
    joules_text,
    short_number,
    tokens_text,
)

_MOST_LISTED = {"tie": 8, "open": 8, "slower": 40}
"""Others listed for people, one line each; JSON holds them all."""
_LABEL = 13
"""Width of the left column of headings [characters]."""


def recommendation_text(result: Recommendation, width: int = 100, paths: Sequence[Path] = ()) -> str:
    """Write a recommendation for people, at most about `width` characters wide; ends with a newline."""
    width = max(60, min(width, 110))
    doubts = f", but it is {' and '.join(result.doubts)}" if result.doubts else ""
    head = f"Run {clean(_long_name(result.choice) + doubts)}"
    lines = [*textwrap.wrap(head, width, subsequent_indent="  "), ""]
    for label, text in _facts(result):
        lines += _labelled(label, clean(text), width)
    for caveat in result.caveats:
        lines += _labelled("but", clean(caveat), width)
    lines += ["", *_rivals(result, width), *_losers(result, width)]
    lines += [
        "Sweep file to measure it again",
        *(f"  {line}" for line in sweep_file_lines(result.choice.row, measure_of(result.choice.row, paths))),
        "",
    ]
    lines += ["In your own training script", *(f"  {line}" for line in torchrun_lines(result.choice.row))]
    return "\n".join(lines) + "\n"


def recommendation_json(result: Recommendation, paths: Sequence[Path] = ()) -> str:
    """Write a recommendation as one JSON object; field names as columns, missing is null."""
    choice = result.choice
    runner_up = result.runner_up
    sweep_file = sweep_file_lines(choice.row, measure_of(choice.row, paths))
    return json_text(
        {
            "question": vars(result.question),
            "choice": {
                "name": choice.name,
                "config": _settings(choice.row),
                **speed_fields(choice),
                "peak_allocated_bytes": choice.peak_bytes,
                "rounds": len(choice.speeds),
                "proof": choice.row.get("proof"),
                "proof_error": choice.row.get("proof_error"),
            },
            "projection": result.projection.fields(),
            "fit": vars(result.fit),
            "ties": [_other(other) for other in result.standing("tie")],
            "open": [_other(other) for other in result.standing("open")],
            "runner_up": None if runner_up is None else _other(runner_up),
            "others": [_other(other) for other in result.others if other.standing in ("slower", "out")],
            "caveats": list(result.caveats),
            "sweep_file": None if is_foreign(choice.row) else "\n".join(sweep_file) + "\n",
            "torchrun": torchrun_lines(choice.row),
        }
    )


def _long_name(choice: Configuration) -> str:
    row = choice.row
    ranks = row.get("world_size")
    cut = f"micro-batch {row.get('micro_batch_size')} x {counted(row.get('accumulation_steps'), 'accumulation step')}"
    many = "unknown ranks" if ranks is None else counted(ranks, "rank")
    more = value_words(row, [name for name in choice.extra_axes if name != "world_size"])
    return ", ".join([str(row.get("amp_mode")), cut, many, *more])


def _facts(result: Recommendation) -> Iterator[tuple[str, str]]:
    projection, choice = result.projection, result.choice
    rounds = counted(projection.rounds, "round")
    sure = "one round, no interval"
    if words := speed_interval_words(projection):
        sure = f"95 % interval {words} over {rounds}"
    if projection.rounds_missing:
        sure += f", estimated for the {projection.rounds_missing} it missed"
    yield "speed", f"{format_rate(projection.valid_tokens_per_s, unit_words([choice.row]))}, all ranks ({sure})"
    room = f"; {result.fit.words}" if result.fit.fits is not None else ""
    together = ""
    if choice.memory_bytes is not None and choice.memory_bytes != choice.peak_bytes:
        together = f", {format_bytes(choice.memory_bytes)} of all ranks, which share this host"
    yield "memory", f"{format_bytes(choice.peak_bytes)} peak allocated, worst rank{together}{room}"
    unit = "GPU-hours" if choice.row.get("device") != "cpu" else "rank-hours"
    run = [
        f"{tokens_text(projection.run_tokens)} {unit_words([choice.row])} take {_amount(projection.hours, hours_text)}"
    ]
    run.append(
        f"{unit} unknown" if projection.gpu_hours is None else f"{_amount_of_hours(projection.gpu_hours)} {unit}"
    )
    if projection.updates is not None:
        run.append(f"{format_count(projection.updates)} updates of {result.question.global_batch_size:,} sequences")
    yield "run", "; ".join(run)
    if projection.price is not None:
        price = _amount(projection.price, lambda amount: f"{amount:,.2f}")
        yield "price", f"{price} at {result.question.price_per_gpu_hour:g} per {unit.removesuffix('s')}"
    yield "energy", "not measured" if projection.joules is None else _amount(projection.joules, joules_text)
    error = choice.row.get("proof_error")
    proof = choice.row.get("proof") or "not run"
    yield "proof", proof if error is None else f"{proof}, gradient error {error:.1e}"


def speed_interval_words(projection: Projection) -> str:
    """Say the 95 % interval of the speed; empty where there is none."""
    low, high = projection.valid_tokens_per_s_low, projection.valid_tokens_per_s_high
    if low is None:
        return ""
    return f"{short_number(low)} or more" if high is None else f"{short_number(low)} to {short_number(high)}"


def amount_interval_words(amount: Amount, words: Callable[[float], str]) -> str:
    """Say the 95 % interval of what a run takes; empty where there is none."""
    if amount.low is None or amount.high is None:
        return ""
    return f"{words(amount.low)} to {words(amount.high)}" if amount.low > 0 else f"up to {words(amount.high)}"


def _amount(amount: Amount, words: Callable[[float], str]) -> str:
    interval = amount_interval_words(amount, words)
    return words(amount.amount) + (f", 95 % interval {interval}" if interval else "")


def _amount_of_hours(amount: Amount) -> str:
    return f"{amount.amount:.2f}" if amount.amount < 10 else format_count(amount.amount)


def _labelled(label: str, text: str, width: int) -> list[str]:
    indent = " " * (_LABEL + 2)
    return textwrap.wrap(text, width, initial_indent=f"  {label:<{_LABEL}}", subsequent_indent=indent)


def _rivals(result: Recommendation, width: int) -> list[str]:
    ties, still_open = result.standing("tie"), result.standing("open")
    lines: list[str] = []
    if ties:
        head = f"Ties: indistinguishable in {_rounds(result)}; none uses less memory"
        lines += [head, *_listed(ties, width, _MOST_LISTED["tie"]), ""]
    if still_open:
        head = f"Not settled after {_rounds(result)}: may be as fast"
        lines += [head, *_listed(still_open, width, _MOST_LISTED["open"]), ""]
    if (runner_up := result.runner_up) is not None:
        lines += ["Runner-up", *_listed([runner_up], width, 1), ""]
    return lines


def _rounds(result: Recommendation) -> str:
    return counted(result.projection.rounds, "round")


def _losers(result: Recommendation, width: int) -> list[str]:
    losers = [other for other in result.others if other.standing in ("slower", "out")]
    if not losers:
        return []
    head = "Why not the others (speed and memory against the choice)"
    return [head, *_listed(losers, width, _MOST_LISTED["slower"]), ""]


def _listed(others: Sequence[Other], width: int, most: int) -> list[str]:
    names = [clean(other.configuration.name) for other in others[:most]]
    column = min(max(map(len, names)), 34)
    lines = []
    for name, other in zip(names, others, strict=False):
        left = f"  {name:<{column}}  "
        indent = " " * (column + 4)
        lines += textwrap.wrap(clean(other.why), width, initial_indent=left, subsequent_indent=indent)
    if len(others) > most:
        lines.append(f"  and {len(others) - most:,} more: --format json lists them all")
    return lines


def _other(other: Other) -> dict[str, Any]:
    verdict = other.verdict
    return {
        "name": other.configuration.name,
        "standing": other.standing,
        "why": other.why,
        "config": _settings(other.configuration.row),
        **speed_fields(other.configuration),
        "peak_allocated_bytes": other.configuration.peak_bytes,
        "verdict": None if verdict is None else verdict.word,
        "valid_tokens_per_s_ratio": None if verdict is None else verdict.ratio,
        "valid_tokens_per_s_ratio_low": None if verdict is None else verdict.ratio_low,
        "valid_tokens_per_s_ratio_high": None if verdict is None else verdict.ratio_high,
        "rounds_needed": None if verdict is None else verdict.rounds_needed,
    }


def _settings(row: Row) -> dict[str, Any]:
    names = ("folder", "trial_id", "model", "amp_mode", "world_size", "micro_batch_size", "accumulation_steps")
    return {name: row.get(name) for name in (*names, "global_batch_size", "seq_len")}
