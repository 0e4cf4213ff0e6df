"""How long the timed part took, how well that is known, and which doubts it raises, as columns of one rank."""

from __future__ import annotations

import math
import os
from typing import Any

from bench.measure.profiler import Part
from bench.measure.update_times import UpdateLaw, is_law_met, law_of, samples_of
from bench.rank.memory_columns import requested_bytes
from bench.rank.protocol import Observations
from bench.rank.workbench import Workbench
from bench.statistics.health import Samples, flags_of


def timed_columns(bench: Workbench, observed: Observations) -> dict[str, Any]:
    """State time, precision and flags of the timed part; all ranks call it together [one rank]."""
    pace = observed.pace
    segments = list(observed.part("timed"))
    times = observed.times("timed")
    law = law_of(times) if pace.by_micro_steps else None
    precision = pace.precision
    marked_s = [math.fsum(sample.seconds for sample in part.samples) for part in segments]
    marked = pace.flags if law is None or _is_confirmed(law, observed) else (*pace.flags, "law_not_met")
    samples = Samples(
        seconds=samples_of(times),
        segments=list(zip(marked_s, [part.host_seconds for part in segments], strict=True)),
        rank_seconds=_fastest_and_slowest(bench, sum(marked_s)),
        timed_s=math.fsum(part.host_seconds for part in segments),
        data_wait_s=observed.data_wait_s,
        updates_skipped=sum(sample.result == "skipped" for sample in observed.samples("timed")),
        alloc_retries=bench.device.allocator_counts().retries,
        memory_pass_bytes=requested_bytes(observed, "memory"),
        timed_bytes=requested_bytes(observed, "timed"),
        marked=marked if bench.ranks.rank == 0 else (),
    )
    return {
        "timed_s": samples.timed_s,
        "timed_cpu_s": math.fsum(part.cpu_seconds for part in segments),
        "segments": len(segments),
        "stop_reason": pace.stop_reason,
        "target_half_width": pace.target_half_width,
        "half_width": precision.half_width,
        "lag1": precision.lag1,
        "spread": precision.spread,
        **_law_columns(bench, law),
        "time_method": "extrapolated" if pace.is_shortened else bench.device.time_method,
        "data_wait_s": observed.data_wait_s,
        "flags": flags_of(samples),
    }


def timing_of(observed: Observations) -> dict[str, Any]:
    """State when the timed part was and what the allocator held at its end, to be compared with telemetry [one rank].

    Edges are on the monotonic clock [s]; `reserved_bytes` is null without a caching allocator.
    """
    segments = list(observed.part("timed"))
    last = segments[-1]
    held_from_s, held_to_s = _held(observed)
    return {
        "pid": os.getpid(),
        "timed_from_s": segments[0].begin_s,
        "timed_to_s": last.begin_s + last.host_seconds,
        "held_from_s": min(held_from_s, segments[0].begin_s),
        "held_to_s": held_to_s,
        "reserved_bytes": last.peaks.reserved_bytes,
    }


def _held(observed: Observations) -> tuple[float, float]:
    """Say since when, and until when, the allocator held what it did at the last edge of the timed part, and no more.

    It gives nothing back by itself, so parts with the same peak of reserved bytes before and after count, but of the
    first of them only its end.
    """
    parts = observed.parts
    at = max(index for index, part in enumerate(parts) if part.name == "timed")
    reserved = parts[at].peaks.reserved_bytes
    first = last = at
    while first > 0 and parts[first - 1].peaks.reserved_bytes == reserved:
        first -= 1
    while last + 1 < len(parts) and parts[last + 1].peaks.reserved_bytes == reserved:
        last += 1
    return _end_s(parts[first]), _end_s(parts[last])


def _end_s(part: Part) -> float:
    return part.begin_s + part.host_seconds


def _law_columns(bench: Workbench, law: UpdateLaw | None) -> dict[str, float | None]:
    """State the law of the rank whose full update takes longest; null on the others, and without one.

    The largest of each would belong to no rank: who waits for the slowest has short micro-steps and a long exchange.
    """
    if law is not None:
        assert bench.trial.config.accumulation_steps is not None, "the trial is resolved"
        full_update_s = law.seconds(bench.trial.config.accumulation_steps)
        (slowest_s,) = bench.ranks.max([full_update_s])
        law = law if full_update_s == slowest_s else None
    return {
        "micro_step_s": None if law is None else law.micro_step_s,
        "update_step_s": None if law is None else law.update_s,
    }


def _is_confirmed(law: UpdateLaw, observed: Observations) -> bool:
    """Compare whole updates with the law: longer ones where windows are shortened, else medians against the mean."""
    pace = observed.pace
    if pace.is_shortened:
        return is_law_met(law, observed.times("confirm"), pace.confirming_micro_steps)
    times = observed.times("timed")
    of_medians = law_of(times, of_medians=True)
    assert of_medians is not None, "there is a law of means"
    return is_law_met(of_medians, times, pace.micro_steps)


def _fastest_and_slowest(bench: Workbench, marked_s: float) -> tuple[float, ...]:
    """Give the least and the most time between marks of any rank [s]."""
    least, most = bench.ranks.max([-marked_s, marked_s])
    return (-least, most)
