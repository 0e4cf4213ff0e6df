"""Tell whether the two launches of a round were really made side by side."""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from bench.report.configurations import BLOCK, Block, Configuration
from bench.report.launch_rows import Row, column_of

_LONG_S = 300.0
_LONG = 10.0
"""A pause is long beyond so many times what a launch takes, and _LONG_S: resumed sweeps wait longer than cool-downs."""


def rounds_apart(one: Configuration, other: Configuration) -> int:
    """Count the rounds in common between whose two launches the same two were launched in another round.

    A sweep makes a round in one pass, so this happens only where a configuration was added to rounds that were already
    done, or was run again later. The machine may have changed in between, which pairing then no longer takes off.
    """
    times = sorted(
        (
            (str(launch["started_utc"]), _block(launch))
            for configuration in (one, other)
            for launch in configuration.launches
            if launch["outcome"] == "ok" and launch.get("started_utc") is not None
        ),
        key=lambda time: time[0],
    )
    spans: dict[Block, list[str]] = {}
    for started_utc, block in times:
        spans.setdefault(block, []).append(started_utc)
    return sum(
        any(spans[block][0] < started_utc < spans[block][-1] for started_utc, its in times if its != block)
        for block in spans
        if block in one.speeds and block in other.speeds
    )


class Pauses:
    """Know the long pauses within rounds, as a sweep has that was interrupted and gone on with later."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """Take the launches of all configurations: what others of the round took is no pause."""
        names = ("started_utc", "launch_s", *BLOCK)
        launches: defaultdict[Block, list[tuple[float, float | None]]] = defaultdict(list)
        for started_utc, launch_s, *place in zip(*(column_of(rows, name) for name in names), strict=True):
            if (start_s := _seconds(started_utc)) is not None:
                launches[tuple(place)].append((start_s, launch_s))
        steps: list[float] = []
        found: list[tuple[Block, float, float]] = []
        for block, its in launches.items():
            its.sort(key=lambda launch: launch[0])
            for (start_s, launch_s), (next_s, _) in itertools.pairwise(its):
                steps.append(next_s - start_s if launch_s is None else launch_s)
                found.append((block, next_s - (launch_s or 0.0) - start_s, next_s))
        # The lower median: of two steps, one of which is the pause, the other is the usual one.
        least_s = max(_LONG_S, _LONG * statistics.median_low(steps)) if steps else _LONG_S
        self._pauses = [(block, pause_s, next_s) for block, pause_s, next_s in found if pause_s > least_s]

    def between(self, one: Configuration, other: Configuration) -> list[float]:
        """Give the longest pause between the two launches of each round that has one [seconds]."""
        if not self._pauses:
            return []
        ok = [row for configuration in (one, other) for row in configuration.launches if row["outcome"] == "ok"]
        spans: defaultdict[Block, list[float]] = defaultdict(list)
        for row in ok:
            if (start_s := _seconds(row.get("started_utc"))) is not None:
                spans[_block(row)].append(start_s)
        longest: dict[Block, float] = {}
        for block, pause_s, next_s in self._pauses:
            if block in one.speeds and block in other.speeds and min(spans[block]) < next_s <= max(spans[block]):
                longest[block] = max(pause_s, longest.get(block, 0.0))
        return list(longest.values())


def _block(row: Row) -> Block:
    return tuple(row.get(name) for name in BLOCK)


def _seconds(started_utc: Any) -> float | None:
    try:
        time = datetime.fromisoformat(str(started_utc))
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
