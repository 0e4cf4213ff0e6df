"""Predict, for a global batch that was not measured, what the two-point law says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.decide.eligible import reasons_out, unlike_words
from bench.decide.law import TwoPointLaw, fit_laws
from bench.decide.question import Question
from bench.report.configurations import Configuration
from bench.report.points import Row, name_with
from bench.report.work_rate import per_update, unit_words
from bench.units import format_bytes, format_rate, short_number

_MOST = 3


def predicted_lines(rows: Sequence[Row], configurations: Sequence[Configuration], question: Question) -> list[str]:
    """Say the fastest predictions for the global batch asked for, each marked as one; none where no law reaches it.

    They come from what could itself be chosen at the global batch it was measured at. Laws that hold come before those
    that fail.

    Args:
        rows: All rows.
        configurations: The same by configuration.
        question: What is asked for; it has a global batch.
    """
    out = reasons_out(rows, configurations, replace(question, global_batch_size=None))
    kept = [one for one in configurations if id(one) not in out]
    laws = fit_laws([launch for one in kept for launch in one.launches])
    found = [line for law in laws if (line := _line(law, kept[0].extra_axes, question)) is not None]
    if not found:
        return []
    if why := unlike_words(rows, kept):
        return [f"No prediction either: {why}"]
    best = [line for *_, line in sorted(found, key=lambda item: item[:2])[:_MOST]]
    return ["Predicted by the two-point law, not measured; measure before relying on it:", *best]


def _line(law: TwoPointLaw, extra: Sequence[str], question: Question) -> tuple[bool, float, str] | None:
    """Predict by one law: whether it fails, tokens/s with the sign turned to sort by, and the line; null for none."""
    row, asked = law.row, question.global_batch_size or 0
    sequences = (row.get("micro_batch_size") or 0) * (row.get("world_size") or 0)
    tokens, batch = per_update(row), row.get("global_batch_size")
    if not sequences or asked % sequences or not tokens or not batch:
        return None
    predicted = law.predict(asked // sequences)
    if predicted.update_s <= 0:
        return None
    tokens_per_update = asked * tokens / batch
    speed = tokens_per_update / predicted.update_s
    words = "" if law.spread is not None else " (too few rounds for an interval)"
    if predicted.update_s_low and predicted.update_s_high:
        low, high = tokens_per_update / predicted.update_s_high, tokens_per_update / predicted.update_s_low
        words = f" ({short_number(low)} to {short_number(high)})"
    elif predicted.update_s_high:
        least = short_number(tokens_per_update / predicted.update_s_high)
        words = f" (at least {least}; the launches vary too much for an upper bound)"
    if predicted.peak_bytes is not None:
        words += f", peak {format_bytes(predicted.peak_bytes)}"
    if predicted.is_extrapolated:
        words += f"; extrapolated from {law.steps[0]} to {law.steps[-1]} accumulation steps"
    if law.failures:
        words += f"; but the law fails here: {'; '.join(law.failures)}"
    name = name_with(row, extra, accumulation_steps=predicted.accumulation_steps)
    return bool(law.failures), -speed, f"  {name}: {format_rate(speed, unit_words([row]))}{words}"
