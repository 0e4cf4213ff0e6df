"""The two tables of a folder, rebuilt from the parts, with one row for each point that did not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.drive.folder import MEASUREMENT_VERSION
from bench.drive.history import History
from bench.record.config_columns import config_columns
from bench.record.store import rebuild_tables
from bench.sweep.trial import Search, Skipped, Trial


def write_tables(
    folder: Path,
    sweep: str,
    points: Sequence[Trial | Skipped | Search],
    history: History,
    pruned: Mapping[str, str],
) -> None:
    """Write results.parquet and updates.parquet: every launch, every skipped point, every pruned trial.

    Args:
        folder: results folder.
        sweep: its name.
        points: every point of the sweep, in the order of the file.
        history: what has happened.
        pruned: trial id to reason.

    Raises:
        StorageError: A part is damaged, or the system refused.
    """
    rows = []
    for point in points:
        if isinstance(point, Skipped):
            rows.append(_row(sweep, point, "skipped", point.reason))
        elif isinstance(point, Trial) and point.trial_id in pruned:
            rows.append(_row(sweep, point, "pruned", pruned[point.trial_id]))
    rebuild_tables(folder, history.parts(), rows, _order(points))


def _row(sweep: str, point: Trial | Skipped, outcome: str, reason: str) -> dict[str, Any]:
    return {
        **config_columns(point.config),
        "measurement_version": MEASUREMENT_VERSION,
        "sweep": sweep,
        "trial_id": point.trial_id,
        "outcome": outcome,
        "reason": reason,
        "flags": [],
    }


def _order(points: Sequence[Trial | Skipped | Search]) -> list[str]:
    """List trial ids in the order of the file; those of a search by size."""
    ids = []
    for point in points:
        trials = point.candidates if isinstance(point, Search) else (point,)
        ids += [trial.trial_id for trial in trials]
    return ids
