"""The top of the page: what to run, how fast and how sure, or why there is no answer."""

from __future__ import annotations

from collections.abc import Sequence

from bench.decide.recommend import Recommendation
from bench.decide.recommend_output import amount_interval_words, speed_interval_words
from bench.page.document import safe
from bench.report.points import Row, facts_of
from bench.report.text_table import distinct
from bench.report.work_rate import unit_words
from bench.sweep.names import clean, value_words
from bench.units import counted, format_bytes, format_rate, hours_text, listed, tokens_text


def title(result: Recommendation | None, launches: Sequence[Row]) -> str:
    """Name the sweeps and the choice, for the browser's tab."""
    sweeps = ", ".join(clean(str(name)) for name in distinct(launches, "sweep")[:3])
    return f"{sweeps}: {result.choice.name}" if result is not None else sweeps or "results"


def answer(result: Recommendation | None, no_answer: str, by_problem: Sequence[str], launches: Sequence[Row]) -> str:
    """Write the answer.

    Args:
        result: What is recommended; None where nothing is.
        no_answer: Why nothing is.
        by_problem: Where the results hold several training problems, a line of each and a note.
        launches: All of them.
    """
    facts = " · ".join(facts_of(launches)) or f"{len(launches)} launches, none ok"
    if result is None and by_problem:
        *lines, note = by_problem
        note = note[0].upper() + note[1:]
        each = "".join(f"<li>{safe(line)}</li>" for line in lines)
        return f"<p class=quiet>{safe(facts)}</p><h1>Several training problems</h1><ul>{each}</ul><p>{safe(note)}</p>"
    if result is None:
        reason = "<br>".join(safe(line) for line in no_answer.splitlines())
        return f"<p class=quiet>{safe(facts)}</p><h1>No recommendation</h1><p>{reason}</p>"
    projection, choice = result.projection, result.choice
    rounds = counted(projection.rounds, "round")
    sure = hours_sure = "one round: no interval"
    if words := speed_interval_words(projection):
        sure = f"95 % interval {words}, {rounds}"
        hours_sure = f"95 % interval {amount_interval_words(projection.hours, hours_text)}"
    row = choice.row
    name = (
        f"Run {row.get('amp_mode')} with micro-batch {row.get('micro_batch_size')} \u00d7 "
        f"{counted(row.get('accumulation_steps'), 'accumulation step')} on {counted(row.get('world_size'), 'rank')}"
    )
    name = ", ".join([name, *value_words(row, [axis for axis in choice.extra_axes if axis != "world_size"])])
    unit = unit_words([row])
    run = f"{tokens_text(projection.run_tokens)} {unit}"
    boxes = [
        (format_rate(projection.valid_tokens_per_s, unit), f"all ranks; {sure}"),
        (format_bytes(choice.peak_bytes), "peak allocated in tensors, worst rank"),
        (hours_text(projection.hours.amount), f"per {run}; {hours_sure}"),
        (str(row.get("proof") or "not run"), "accumulation proof: the update is the global batch's"),
    ]
    cells = "".join(f"<div class=fact><b>{safe(big)}</b><span>{safe(small)}</span></div>" for big, small in boxes)
    caveats = "".join(f"<li>{safe(caveat)}</li>" for caveat in result.caveats)
    box = f"<div class=caveats><ul>{caveats}</ul></div>" if caveats else ""
    second = _second(result)
    return f"<p class=quiet>{safe(facts)}</p><h1>{safe(name)}</h1><div class=facts>{cells}</div>{second}{box}"


def _second(result: Recommendation) -> str:
    """Name the runner-up, and the other ties."""
    runner_up = result.runner_up
    if runner_up is None:
        return ""
    role = {"tie": "Runner-up (tie)", "open": "Runner-up (not settled)"}.get(runner_up.standing, "Runner-up")
    ties = [other.configuration.name for other in result.standing("tie") if other is not runner_up]
    tied = f" Further ties, none with less memory: {listed(ties, 4)}." if ties else ""
    return f"<p>{role}: <b>{safe(runner_up.configuration.name)}</b>, {safe(runner_up.why)}.{safe(tied)}</p>"
