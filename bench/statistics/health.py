"""Doubts about a launch that its own samples and counts raise. No torch; nothing here removes data.

Each function answers one question; `flags_of` asks them all and gives the names that the column `flags` holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.units import share_text

FEW_SAMPLES = 10
DATA_BOUND_SHARE = 0.05
STRAGGLER_RATIO = 0.02
SPIKY_SHARE = 0.005
OTHERS_CPU_SHARE = 0.05
"""Use of our cores by others from which they may be in the way [ratio]."""
LOST_CPU_SHARE = 0.02
"""Time waited for a core, stolen or throttled, from which a launch is slower than it would be alone [ratio]."""

FLAG_SENTENCES: dict[str, str] = {
    "not_steady": "the warm-up reached its cap before update times settled",
    "precision_not_met": "the timed part reached its cap before its interval was as narrow as requested",
    "few_updates": f"the timed part has fewer than {FEW_SAMPLES} samples",
    "drift": "the last third of the timed part is slower or faster than the first third",
    "spiky": f"updates far slower than the median take more than {share_text(SPIKY_SHARE)} of the timed part",
    "clock_mismatch": "device clock and host clock disagree on the length of the timed part",
    "straggler": f"the slowest rank's micro-steps without an exchange take over {share_text(STRAGGLER_RATIO)} "
    "longer than the fastest's",
    "host_busy": (
        f"others used more than {share_text(OTHERS_CPU_SHARE)} of the ranks' cores and ranks waited for them, or a "
        "hypervisor or a CPU limit took them away: on a CPU the speed is not the machine's"
    ),
    "data_bound": f"the timed part spent more than {share_text(DATA_BOUND_SHARE)} of its time waiting for data",
    "amp_skips": "the gradient scaler skipped updates of the timed part, which then cost no optimizer step",
    "alloc_retries": "the allocator had to free cached blocks and retry: the peak reached the memory limit",
    "mem_unstable": "the timed part requested more memory than the memory pass; the larger is reported",
    "above_peak": "more FLOP/s than the GPU's data sheet allows: the peak, the count of FLOPs or the clock is wrong",
    "ddp_warmup": "the timed part began while the host still waited for DDP's own timing of the first exchanges",
    "law_not_met": "whole updates differ from t_update + A x t_micro by more than 1 %",
    "whole_window_unseen": "windows were shortened, and the time limit left no room to time a whole one beside them",
    "recompiled": "torch.compile compiled again in the timed part, whose time holds it; see recompiled_graphs_timed",
    "not_compiled": "torch.compile compiled nothing, or met its limit of recompilations and went on with eager code",
    "no_gradient": "trainable parameters received no gradient, as parameters_without_gradient names: never recommended",
    "not_witnessed": "the witnessed updates failed, as the log says: what they tell is null, all else stands",
}
"""Every flag that a rank raises, and what it means."""


@dataclass(frozen=True)
class Samples:
    """Collect what one rank knows of its timed part."""

    seconds: Sequence[float]
    """Durations of the samples, in order [s]."""
    segments: Sequence[tuple[float, float]] = ()
    """(sum of the marks' differences, host time) of each segment [s]."""
    slowest_rank_at_least_s: float | None = None
    """What a micro-step without an exchange takes on the slowest rank, at least [s]; null where unknown."""
    fastest_rank_at_most_s: float | None = None
    """What it takes on the fastest rank, at most [s]; null where unknown."""
    timed_s: float = 0.0
    """Length of the timed part on the host clock [s]."""
    data_wait_s: float = 0.0
    """Of which the loop waited for its input [s]."""
    updates_skipped: int = 0
    """Updates the gradient scaler skipped."""
    alloc_retries: int | None = None
    """Null without a caching allocator."""
    memory_pass_bytes: int | None = None
    """Most requested in the memory pass [bytes]; null where unknown."""
    timed_bytes: int | None = None
    """Most requested in the timed part [bytes]; null where unknown."""
    marked: tuple[str, ...] = field(default=())
    """Flags already known, such as not_steady."""


def flags_of(samples: Samples) -> list[str]:
    """Name every doubt, sorted; an empty list means that every check was clean [one rank]."""
    found = {
        "few_updates": len(samples.seconds) < FEW_SAMPLES,
        "drift": has_drift(samples.seconds),
        "spiky": spike_share(samples.seconds) > SPIKY_SHARE,
        "clock_mismatch": any(clocks_differ(marks, host) for marks, host in samples.segments),
        "straggler": is_straggling(samples.slowest_rank_at_least_s, samples.fastest_rank_at_most_s),
        "data_bound": samples.data_wait_s > DATA_BOUND_SHARE * samples.timed_s,
        "amp_skips": samples.updates_skipped > 0,
        "alloc_retries": bool(samples.alloc_retries),
        "mem_unstable": _exceeds(samples.timed_bytes, samples.memory_pass_bytes),
    }
    flags = {flag for flag, is_raised in found.items() if is_raised} | {*samples.marked}
    assert flags <= FLAG_SENTENCES.keys(), f"a flag without a sentence: {flags - FLAG_SENTENCES.keys()}"
    return sorted(flags)


def has_drift(seconds: Sequence[float]) -> bool:
    """Tell whether first and last third differ by more than max(0.5 %, 3 standard errors) of the mean.

    The standard error comes from five batch means in each of the two thirds, which correlated neighbours hardly
    distort. False below 30 samples, where batches hold one sample.
    """
    samples = np.asarray(seconds, dtype=np.float64)
    size = len(samples) // 15
    if size < 2:
        return False
    first = samples[: 5 * size].reshape(5, size).mean(axis=1)
    last = samples[-5 * size :].reshape(5, size).mean(axis=1)
    difference = abs(last.mean() - first.mean())
    error = np.sqrt((first.var(ddof=1) + last.var(ddof=1)) / 5)
    return bool(difference > max(0.005 * samples.mean(), 3 * error))


def spikes(seconds: Sequence[float] | NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark samples above median + max(6 robust standard deviations, 2 %); boolean (n,).

    The robust standard deviation is 1.4826 times the median absolute deviation.
    """
    samples = np.asarray(seconds, dtype=np.float64)
    median = np.median(samples)
    robust_sd = 1.4826 * np.median(np.abs(samples - median))
    return np.asarray(samples > median + max(6 * robust_sd, 0.02 * median))


def spike_share(seconds: Sequence[float]) -> float:
    """Give the share of the time that spikes hold [ratio]; 0 without samples."""
    if not len(seconds):
        return 0.0
    samples = np.asarray(seconds, dtype=np.float64)
    return float(samples[spikes(samples)].sum() / samples.sum())


def clocks_differ(marks_s: float, host_s: float) -> bool:
    """Tell whether the marks' sum and the host's time of one segment differ by more than 0.2 % + 1 ms."""
    return abs(marks_s - host_s) > 0.002 * host_s + 0.001


def is_straggling(slowest_at_least_s: float | None, fastest_at_most_s: float | None) -> bool:
    """Tell whether a rank takes over 2 % longer than another by intervals of both, so that noise alone is no straggler.

    Args:
        slowest_at_least_s: Lower end of the slowest rank's interval [s].
        fastest_at_most_s: Upper end of the fastest rank's [s].
    """
    if slowest_at_least_s is None or fastest_at_most_s is None:
        return False
    return slowest_at_least_s > (1 + STRAGGLER_RATIO) * fastest_at_most_s


def is_host_busy(
    others_cpu_share: float | None,
    steal_share: float | None,
    cpu_wait_share: float | None,
    cpu_throttled_share: float | None,
) -> bool:
    """Tell whether the ranks did not have their cores to themselves; what is unknown raises no doubt.

    Others alone are no harm where there are cores enough, nor does waiting alone show others: ranks with more threads
    than cores wait for each other. Where the kernel does not tell what was waited, others alone decide.
    """
    in_the_way = (others_cpu_share or 0.0) > OTHERS_CPU_SHARE
    waited = cpu_wait_share is None or cpu_wait_share > LOST_CPU_SHARE
    taken = max(steal_share or 0.0, cpu_throttled_share or 0.0)
    return (in_the_way and waited) or taken > LOST_CPU_SHARE


def _exceeds(measured: int | None, limit: int | None) -> bool:
    return measured is not None and limit is not None and measured > limit
