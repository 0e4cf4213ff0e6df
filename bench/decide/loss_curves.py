"""Tell whether two runs of the same work have the same loss curve, to within their precision."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from bench.report.machines import WORK, differences
from bench.report.points import Row
from bench.report.problem import PROBLEM
from bench.report.select import select_updates

# Rounding at every operation differs between cuts; over tens of updates the losses part by a few times the resolution
# of the arithmetic at most, while a wrong weight of one micro-batch shows in the first digits.
_TOLERANCE = {"fp32": 1e-4, "tf32": 1e-3, "fp16": 1e-3, "bf16": 4e-3}
"""Largest relative difference of two losses that rounding explains, by the coarser arithmetic of the two."""

Curve = Mapping[int, float]
LaunchKey = tuple[Any, ...]

_FEW_UPDATES = 10
"""Below so many losses in common, that they agree says little."""


@dataclass(frozen=True)
class CurveVerdict:
    """State whether two loss curves agree."""

    word: Literal["agree", "differ", "not compared"]
    updates: int
    """Updates in the common prefix, from update 0."""
    largest: float | None
    """Largest relative difference over the prefix; null when not compared."""
    note: str
    """Where they part first, why they were not compared, or that one is shorter; empty when there is nothing to say."""


def load_curves(paths: Sequence[Path]) -> dict[LaunchKey, Curve]:
    """Load the training loss by update of every launch [nats per valid token]; paths without updates give none.

    The curve ends before the first update that the gradient scaler skipped: from there on the runs differ rightly.
    """
    curves: dict[LaunchKey, Curve] = {}
    for source, path in enumerate(paths):
        table = select_updates(path)
        if table is not None:
            curves |= {(source, *key): curve for key, curve in _curves(table)}
    return curves


def curves_of(launches: Iterable[Row], curves: Mapping[LaunchKey, Curve]) -> list[Curve]:
    """Give the curve of every launch of a configuration that has one, the longest first."""
    keys = [
        (row.get("source"), row["trial_id"], row.get("round"), row.get("attempt"))
        for row in launches
        if row["outcome"] == "ok"
    ]
    return sorted((curves[key] for key in keys if curves.get(key)), key=len, reverse=True)


def compare_curves(one: Row, one_curves: Sequence[Curve], other: Row, other_curves: Sequence[Curve]) -> CurveVerdict:
    """Compare the losses of two configurations over their common updates, those of every launch.

    All are held against the longest curve of the baseline, its own other launches too.

    Args:
        one: A row of the baseline.
        one_curves: Loss by update of its launches, the longest first.
        other: A row of the candidate.
        other_curves: Loss by update of its launches, the longest first.
    """
    if unlike := differences(one, other, (*PROBLEM, *WORK)):
        return CurveVerdict("not compared", 0, None, "different training: " + ", ".join(unlike))
    if not one_curves or not other_curves:
        return CurveVerdict("not compared", 0, None, "losses were not stored for both")
    tolerance = max(_TOLERANCE.get(str(row.get("amp_mode")), _TOLERANCE["bf16"]) for row in (one, other))
    base, *others = one_curves
    verdicts = [_compare(base, curve, tolerance) for curve in (*other_curves, *others)]
    for word in ("differ", "not compared"):
        if found := [verdict for verdict in verdicts if verdict.word == word]:
            return found[0]
    least, longest = min(verdict.updates for verdict in verdicts), max(len(base), len(other_curves[0]))
    is_short = least < min(_FEW_UPDATES, longest)  # launches of other lengths are no doubt, too few losses are
    note = f"compared over only {least} of {longest} updates: a launch has no more losses" if is_short else ""
    return CurveVerdict("agree", least, max(verdict.largest or 0.0 for verdict in verdicts), note)


def _compare(one_curve: Curve, other_curve: Curve, tolerance: float) -> CurveVerdict:
    prefix = [update for update in sorted(one_curve) if update in other_curve]
    if not prefix:
        return CurveVerdict("not compared", 0, None, "losses were not stored for both")
    gaps = {update: _gap(one_curve[update], other_curve[update]) for update in prefix}
    first = next((update for update in prefix if not gaps[update] <= tolerance), None)
    if first is None:
        return CurveVerdict("agree", len(prefix), max(gaps.values()), "")
    note = f"update {first}: {one_curve[first]:.6g} against {other_curve[first]:.6g}"
    finite = [gap for gap in gaps.values() if math.isfinite(gap)]
    return CurveVerdict("differ", len(prefix), max(finite, default=None), note)


def _gap(one: float, other: float) -> float:
    size = max(abs(one), abs(other))
    return abs(one - other) / size if size > 0 else 0.0


def _curves(table: pa.Table) -> Iterable[tuple[LaunchKey, Curve]]:
    names = ("trial_id", "round", "attempt", "update", "train_loss", "result")
    launches: dict[LaunchKey, list[tuple[int, float | None, str | None]]] = {}
    for trial_id, round_, attempt, update, loss, result in zip(
        *(table.column(name).to_pylist() for name in names), strict=True
    ):
        if update is not None:
            launches.setdefault((trial_id, round_, attempt), []).append((update, loss, result))
    for key, updates in launches.items():
        curve: dict[int, float] = {}
        for update, loss, result in sorted(updates, key=lambda item: item[0]):
            if result == "skipped":
                break
            if loss is not None:
                curve[update] = loss
        yield key, curve
