"""Gather launches by configuration: what was asked, how fast it was in each round, how much memory it took."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.record.bytes_only import is_bytes_only
from bench.report.launch_rows import column_of, distinct_of, rows_at
from bench.report.machines import machine_differences, machine_keys
from bench.report.points import Row, extra_axes, name_of
from bench.report.select import group_by_outcome
from bench.report.work_rate import speeds_of, tokens_only, unit_of

Block = tuple[Any, ...]
"""One round of one sweep on one host, in one result: launches in it were made side by side."""
BLOCK = ("folder", "source", "sweep", "hostname", "round")
"""Columns whose values are a block."""
Speeds = Mapping[Block, float]
"""Speed by block: valid_tokens_per_s, units_per_s where the unit is no token [all ranks]."""

_NOT_A_RESULT = ("interrupted",)
"""Outcomes that say nothing about the configuration."""


@dataclass(frozen=True)
class Configuration:
    """Hold one configuration on one kind of machine, in one result or one pool of them, with all its launches."""

    row: Row
    """Its first launch, ok if there is one: settings and machine are those of all."""
    launches: tuple[Row, ...]
    """Every launch, and the row of a skipped or pruned trial."""
    extra_axes: tuple[str, ...]
    """Columns that tell configurations apart besides AMP mode, micro-batch and accumulation steps."""
    speeds: Mapping[Block, float]
    """Speed by block, of launches that are ok: valid_tokens_per_s, units_per_s where the unit is no token."""
    peak_bytes: int | None
    """Largest peak_allocated_bytes of its launches, worst rank; null when none reported one [bytes]."""
    fault: str | None
    """Why it is not to be relied on: an outcome that is not ok, with its reason; null when every launch was ok."""

    @functools.cached_property
    def name(self) -> str:
        """Give AMP mode, micro-batch x accumulation steps, and whatever else tells it apart: bf16 8 x 4, 2 ranks."""
        return name_of(self.row, self.extra_axes)

    @functools.cached_property
    def speed(self) -> float | None:
        """Tokens / seconds over all rounds, their harmonic mean, each round an equal share of the tokens [tokens/s].

        Of all ranks; null without any. It is what a long run gets; ratios are made of `geometric_speed`.
        """
        speeds = self.speeds.values()
        return len(speeds) / sum(1 / speed for speed in speeds) if speeds else None

    @functools.cached_property
    def geometric_speed(self) -> float | None:
        """Geometric mean of the speeds over rounds, whose ratios are the means of ratios [tokens/s]; null without."""
        logs = list(map(math.log, self.speeds.values()))
        return math.exp(sum(logs) / len(logs)) if logs else None

    @functools.cached_property
    def memory_bytes(self) -> int | None:
        """Give the peak that counts where memory is compared [bytes]; null when none was reported.

        On a CPU that of all ranks together, as they share the host; where only the worst is known, as if all were it.
        """
        ranks = self.row.get("world_size") or 1
        if self.peak_bytes is None or self.row.get("device") != "cpu" or ranks == 1:
            return self.peak_bytes
        ok = [launch for launch in self.launches if launch["outcome"] == "ok"]
        per_rank = [peaks for launch in ok if (peaks := launch.get("peak_allocated_bytes_per_rank")) is not None]
        known = [sum(peaks) for peaks in per_rank if None not in list(peaks)]
        return int(max(known)) if known else ranks * self.peak_bytes

    @property
    def extrapolation(self) -> str | None:
        """Say how a speed of it comes from shortened windows, and whether a whole one agrees; null where none does."""
        shortened = [
            launch
            for launch in self.launches
            if launch.get("time_method") == "extrapolated" and launch["outcome"] == "ok"
        ]
        if not shortened:
            return None
        sizes = sorted({size for launch in shortened if (size := _micro_steps_of_a_window(launch)) is not None})
        of = f" of {_range(sizes)} micro-steps" if sizes else ""
        words = f"speed extrapolated from windows{of}"
        if any(launch.get("whole_update_s") is None for launch in shortened):
            return f"{words}; no whole window was seen"
        if any("law_not_met" in (launch.get("flags") or []) for launch in shortened):
            return f"speed that of single whole windows, as windows{of} foretell another"
        return f"{words}; a whole one agreed within 1 %"

    @property
    def is_unfit(self) -> bool:
        """Whether every launch that says something ran out of memory, or was left out because of one that did."""
        outcomes = {launch["outcome"] for launch in self.launches} - set(_NOT_A_RESULT)
        return bool(outcomes) and outcomes <= {"oom", "oom_host", "pruned"}

    @property
    def no_speed(self) -> str:
        """Say why launches that are ok have no speed."""
        if any(is_bytes_only(launch) for launch in self.launches):
            return "measured on a stand-in GPU, which shows no speed"
        return "no throughput was measured"

    @property
    def was_run(self) -> bool:
        """Whether it was launched at all: not skipped, not pruned."""
        return any(launch["outcome"] not in ("skipped", "pruned") for launch in self.launches)


def speed_fields(one: Configuration) -> dict[str, Any]:
    """Give a configuration's speed for programs: what is called valid tokens is null where the unit is another."""
    tokens = {"valid_tokens_per_s": one.speed, "valid_tokens_per_s_geometric_mean": one.geometric_speed}
    return {
        **{name: tokens_only(one.row, value) for name, value in tokens.items()},
        "unit": unit_of(one.row),
        "units_per_s": one.speed,
    }


def configurations_of(rows: Sequence[Row]) -> list[Configuration]:
    """Group launches into configurations, in order of appearance.

    Launches of one trial id on one kind of machine are one configuration, whichever sweep they come from; on another
    kind of machine, under other software, or in another result that is not pooled with it, they are another one.
    """
    trials = list(zip(column_of(rows, "folder"), column_of(rows, "trial_id"), strict=True))
    outcomes = column_of(rows, "outcome")
    machines = _places(machine_keys(rows))
    known: dict[Any, dict[int, Row]] = {}
    if distinct_of(rows, "outcome") != {"ok"}:
        for trial, outcome, machine, row in zip(trials, outcomes, machines, rows, strict=True):
            if outcome == "ok":
                known.setdefault(trial, {}).setdefault(machine, row)
    groups: defaultdict[tuple[Any, int], list[int]] = defaultdict(list)
    for place, (trial, outcome, machine) in enumerate(zip(trials, outcomes, machines, strict=True)):
        # A launch that failed early does not know its machine: it belongs where nothing it knows is different.
        like = machine if outcome == "ok" else _like_machine(rows[place], machine, known.get(trial, {}))
        groups[trial, like].append(place)
    extra = tuple(extra_axes(rows_at(rows, [group[0] for group in groups.values()])))
    blocks = list(zip(*(column_of(rows, name) for name in BLOCK), strict=True))
    speeds, peaks = _measured(speeds_of(rows)), _measured(column_of(rows, "peak_allocated_bytes"))
    made = []
    for group in groups.values():
        ok = [place for place in group if outcomes[place] == "ok"]
        launches = tuple([rows[place] for place in group])
        made.append(
            Configuration(
                row=rows[ok[0]] if ok else launches[0],
                launches=launches,
                extra_axes=extra,
                speeds={blocks[place]: speed for place in ok if (speed := speeds[place]) is not None},
                peak_bytes=max([peak for place in ok if (peak := peaks[place]) is not None], default=None),
                fault=None if len(ok) == len(group) else _fault(launches),
            )
        )
    return made


def _micro_steps_of_a_window(launch: Row) -> int | None:
    """Count the micro-steps of one of its timed windows; null where the row does not say."""
    windows = (launch.get("updates_attempted") or 0) * (launch.get("world_size") or 0)
    micro_batches = launch.get("micro_batches")
    return round(micro_batches / windows) if windows and micro_batches else None


def _range(sizes: Sequence[int]) -> str:
    return f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def _places(keys: Sequence[Any]) -> list[int]:
    """Number equal keys alike: comparing numbers is faster than comparing a dozen texts."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _like_machine(row: Row, machine: int, known: Mapping[int, Row]) -> int:
    return next((other for other, of in known.items() if not machine_differences(row, of)), machine)


def _measured(values: Sequence[Any]) -> list[Any]:
    """Leave out what cannot have been measured: nan, infinity, zero."""
    return [value if value is not None and 0 < value < math.inf else None for value in values]


def _fault(launches: Sequence[Row]) -> str | None:
    """Give the first bad outcome; one launch out of memory in three means that a long run would meet it too."""
    counted = [launch for launch in launches if launch["outcome"] not in _NOT_A_RESULT]
    bad = [launch for launch in counted if launch["outcome"] != "ok"]
    if not bad:
        return None if counted else "interrupted before it was measured"
    outcomes = ", ".join(f"{outcome}" for outcome in group_by_outcome(bad))
    share = f" in {len(bad)} of {len(counted)} launches" if len(counted) > len(bad) else ""
    reason = bad[0].get("reason")
    return f"{outcomes}{share}" + (f": {reason}" if reason else "")
