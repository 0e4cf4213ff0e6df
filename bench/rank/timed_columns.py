"""How long the timed part took, how well that is known, and which doubts it raises, as columns of one rank."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from bench.measure.cpu_use import sum_of_uses
from bench.measure.host import usable_cores
from bench.measure.profiler import Part
from bench.measure.update_times import UpdateLaw, UpdateTime, is_law_met, law_of, samples_of
from bench.rank.ddp_warmup import waiting_updates
from bench.rank.memory_columns import requested_bytes
from bench.rank.protocol import Observations
from bench.rank.rank_spread import rank_spread
from bench.rank.workbench import Workbench
from bench.statistics.health import Samples, flags_of, is_host_busy


def timed_columns(bench: Workbench, observed: Observations) -> dict[str, Any]:
    """State time, precision and flags of the timed part; all ranks call it together [one rank]."""
    pace = observed.pace
    segments = list(observed.part("timed"))
    times = observed.times("timed")
    law = law_of(times) if pace.by_micro_steps else None
    precision = pace.precision
    spread = rank_spread(bench, observed)
    marked_s = [math.fsum(sample.seconds for sample in part.samples) for part in segments]
    whole = observed.whole_windows() if pace.is_shortened else []
    is_confirmed = law is None or _is_confirmed(law, observed, whole)
    host = host_columns(bench, segments)
    found = {
        "law_not_met": not is_confirmed,
        "whole_window_unseen": pace.is_shortened and not whole,
        "ddp_warmup": _begins_early(bench, observed),
        "host_busy": is_host_busy(**host),
    }
    marked = {*pace.flags, *(flag for flag, is_raised in found.items() if is_raised)}
    samples = Samples(
        seconds=samples_of(times),
        segments=list(zip(marked_s, [part.host_seconds for part in segments], strict=True)),
        slowest_rank_at_least_s=None if spread is None else spread.slowest_at_least_s,
        fastest_rank_at_most_s=None if spread is None else spread.fastest_at_most_s,
        timed_s=math.fsum(part.host_seconds for part in segments),
        data_wait_s=observed.data_wait_s,
        updates_skipped=sum(sample.result == "skipped" for sample in observed.samples("timed")),
        alloc_retries=bench.device.allocator_counts().retries,
        memory_pass_bytes=requested_bytes(observed, "memory"),
        timed_bytes=requested_bytes(observed, "timed"),
        marked=tuple(marked if bench.ranks.rank == 0 else marked & {"host_busy"}),
    )
    return {
        "timed_s": samples.timed_s,
        "timed_cpu_s": math.fsum(part.cpu_seconds for part in segments),
        **host,
        "segments": len(segments),
        "stop_reason": pace.stop_reason,
        "target_half_width": pace.target_half_width,
        # The rate is then that of the whole window, of which nothing says how well it is known.
        "half_width": None if whole and not is_confirmed else precision.half_width,
        "lag1": precision.lag1,
        "spread": precision.spread,
        **_law_columns(bench, law),
        "micro_step_rank_spread": None if spread is None else spread.excess,
        "whole_update_s": fmean(time.seconds for time in whole) if whole else None,
        "time_method": "extrapolated" if pace.is_shortened else bench.device.time_method,
        "data_wait_s": observed.data_wait_s,
        "flags": flags_of(samples),
    }


def host_columns(bench: Workbench, segments: Sequence[Part]) -> dict[str, float | None]:
    """State who else used the ranks' cores in the timed part, and how long ranks waited; all ranks call it together.

    All ranks run on one host and may use the same cores: what all of them took together is theirs.
    """
    use = sum_of_uses(part.cpu for part in segments)
    available_s = usable_cores() * math.fsum(part.host_seconds for part in segments)
    known = [use.cores_s, use.own_s, use.steal_s]
    (missing,) = bench.ranks.max([float(any(value is None for value in known))])
    (own_s,) = bench.ranks.sum([use.own_s or 0.0])
    others_s = None if missing or use.cores_s is None else max(0.0, use.cores_s - own_s)
    wanted_s = None if use.ran_s is None or use.waited_s is None else use.ran_s + use.waited_s
    return {
        "others_cpu_share": _share(others_s, available_s),
        "steal_share": _share(use.steal_s, available_s),
        "cpu_wait_share": _share(use.waited_s, wanted_s),
        "cpu_throttled_share": _share(use.throttled_s, available_s / usable_cores()),
    }


def _share(part_s: float | None, whole_s: float | None) -> float | None:
    return None if part_s is None or not whole_s else part_s / whole_s


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


def _is_confirmed(law: UpdateLaw, observed: Observations, whole: Sequence[UpdateTime]) -> bool:
    """Compare whole updates with the law: where windows are shortened longer ones and a whole one, else the timed ones.

    These are held against the law of medians, so that rare slow samples are seen.
    """
    pace = observed.pace
    if pace.is_shortened:
        is_longer_met = is_law_met(law, observed.times("confirm"), pace.confirming_micro_steps)
        return is_longer_met and (not whole or is_law_met(law, whole, pace.accumulation_steps))
    times = observed.times("timed")
    of_medians = law_of(times, of_medians=True)
    assert of_medians is not None, "there is a law of means"
    return is_law_met(of_medians, times, pace.micro_steps)


def _begins_early(bench: Workbench, observed: Observations) -> bool:
    """Tell whether the host waited for DistributedDataParallel's own timing in the timed part.

    Where micro-steps are the samples, none of them holds an exchange, and one wait is nothing to an update of seconds.
    """
    first = next(observed.part("timed")).samples[0].update
    return first < waiting_updates(bench.trial.config, bench.device.kind) and not observed.pace.by_micro_steps
