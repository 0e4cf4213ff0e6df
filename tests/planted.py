"""Planted results: rows whose right answer is known, in rounds that share a drift as real ones do."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.record.store import rebuild_tables, write_part
from tests.strategies import failed_row, ok_row

TOKENS = 163_840
MIB = 1024**2
PROVEN = {"proof": "PASS", "host_peak_rss_bytes": 400 * MIB, "device_capacity_bytes": 16 * 1024 * MIB}
"""What a launch on a CPU has that is proven and fits."""


def config(speed: float | None, **changes: Any) -> dict[str, Any]:
    """Describe a configuration by its true speed [valid tokens/s], or by None and an outcome."""
    return {"speed": speed, **changes}


def launches(
    configs: Sequence[Mapping[str, Any]], rounds: int = 3, sd: float = 0.001, drift: float = 0.02, seed: int = 0
) -> list[dict[str, Any]]:
    """Build the rows of a sweep: every configuration once per round, with noise and a drift that rounds share.

    Each configuration gets a trial id of its own, `000000000000` for the first. `drift` is the standard deviation of a
    round, `sd` that of a launch within it, both relative.
    """
    noise = random.Random(seed)
    rows = []
    shared = [noise.gauss(0, drift) for _ in range(rounds)]
    for index, settings in enumerate(configs):
        changes = {"trial_id": f"{index:012x}", **{k: v for k, v in settings.items() if k != "speed"}}
        micro, ranks = changes.get("micro_batch_size", 8), changes.get("world_size", 1)
        batch = changes.get("global_batch_size", 64)
        changes = {"accumulation_steps": batch // (micro * ranks), **changes}
        for number in range(rounds):
            if settings["speed"] is None:
                rows.append(failed_row(**{"round": number, **changes}))
                continue
            speed = settings["speed"] * math.exp(shared[number] + noise.gauss(0, sd))
            rows.append(ok_row(**{"round": number, "timed_s": TOKENS / speed, **changes}))
    return rows


def store(
    folder: Path,
    rows: Sequence[Mapping[str, Any]],
    updates_of: Callable[[Mapping[str, Any]], list[dict[str, Any]]] = lambda row: [],
) -> Path:
    """Store rows as a sweep would, with the updates that `updates_of` gives each; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [write_part(folder, row, updates_of(row)) for row in rows if row["round"] is not None]
    rebuild_tables(folder, parts, [row for row in rows if row["round"] is None])
    return folder


def losses(values: Sequence[float], results: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Build the update rows of a launch with these training losses."""
    words = results or ["applied"] * len(values)
    return [
        {"update": number, "phase": "timed", "train_loss": value, "result": word, "seconds": 0.1}
        for number, (value, word) in enumerate(zip(values, words, strict=True))
    ]
