"""Predict, for a global batch that was not measured, what the two-point law says of it."""

from __future__ import annotations

from collections.abc import Sequence

from bench.report.law import fit_laws
from bench.report.points import Row, name_of
from bench.units import format_bytes, format_rate

_MOST = 3


def predicted_lines(rows: Sequence[Row], global_batch_size: int) -> list[str]:
    """Say the fastest predictions for a global batch, each marked as one; none where no law reaches it."""
    found: list[tuple[float, str]] = []
    for law in fit_laws(rows):
        row = law.row
        sequences = (row.get("micro_batch_size") or 0) * (row.get("world_size") or 0)
        tokens, batch = row.get("valid_tokens_per_update"), row.get("global_batch_size")
        if not sequences or global_batch_size % sequences or not tokens or not batch:
            continue
        predicted = law.predict(global_batch_size // sequences)
        if predicted.update_s <= 0:
            continue
        tokens_per_update = global_batch_size * tokens / batch
        speed = tokens_per_update / predicted.update_s
        between = "" if law.spread is not None else " (too few rounds for an interval)"
        if predicted.update_s_low and predicted.update_s_high:
            low, high = tokens_per_update / predicted.update_s_high, tokens_per_update / predicted.update_s_low
            between = f" ({_rate(low)} to {_rate(high)})"
        peak = f", peak {format_bytes(predicted.peak_bytes)}" if predicted.peak_bytes is not None else ""
        doubt = f"; but the law fails here: {'; '.join(law.failures)}" if law.failures else ""
        name = name_of({**row, "accumulation_steps": predicted.accumulation_steps})
        ranks = f", {row['world_size']} ranks" if row["world_size"] > 1 else ""
        line = f"  {name}{ranks}: {format_rate(speed, 'valid tokens')}{between}{peak}{doubt}"
        found.append((speed, line))
    if not found:
        return []
    best = [line for _, line in sorted(found, key=lambda item: -item[0])[:_MOST]]
    return ["Predicted by the two-point law, not measured; measure before you rely on it:", *best]


def _rate(per_second: float) -> str:
    return format_rate(per_second, "").removesuffix(" /s")
