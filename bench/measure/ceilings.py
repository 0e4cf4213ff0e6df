"""What a device reaches at best: large matrix products and copies, timed by its own marks.

A ceiling is the median of repeats, so that one lucky or one disturbed repeat does not make it, and the best over
sizes, since no size is best on every device. The whole measurement has a time limit: a size that no longer fits into
it is left out, with the larger ones.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from bench.measure.device import Device

MATRIX_SIZES = {"cpu": (256, 512, 1024, 2048, 4096), "cuda": (2048, 4096, 8192, 16384)}
"""Kind of device -> rows and columns of the square matrices that are tried, the smallest first."""

_REPEAT_S = 0.01
"""A repeat holds as many calls as take so long, that marking it costs nothing beside them [s]."""
_FEWEST_REPEATS = 5
_MOST_REPEATS = 100


@dataclass(frozen=True)
class Ceiling:
    """State one measured ceiling of one device."""

    per_s: float
    """By the median repeat [FLOP/s, or bytes/s]."""
    spread: float
    """(90th - 10th percentile of the repeats' durations) / their median."""
    size: int
    """Rows and columns of the square matrices, or bytes of the buffer."""
    repeats: int


def matmul_ceiling(device: Device, dtype: torch.dtype, sizes: Sequence[int], limit_s: float) -> Ceiling | None:
    """Measure the fastest square product C = A B of one dtype, 2 n^3 FLOPs each.

    The matrices hold random numbers: a GPU draws less power, and clocks higher, on zeros. The switches of torch decide
    what is done with float32.

    Args:
        device: Where.
        dtype: Of all three matrices.
        sizes: n to try, in ascending order.
        limit_s: Most time spent on all sizes, the first call of the first one aside [s].

    Returns:
        The ceiling; None where there is no memory for the smallest.
    """
    best: Ceiling | None = None
    left_s = limit_s
    call_s: float | None = None
    for place, size in enumerate(sizes):
        if call_s is not None and _calls_of_one_size() * call_s * (size / sizes[place - 1]) ** 3 > left_s:
            break
        try:
            left, right, product = (
                torch.randn(size, size, device=device.torch_device, dtype=torch.float32).to(dtype) for _ in range(3)
            )
            seconds, spent_s = time_repeats(device, _product_into(left, right, product), left_s / (len(sizes) - place))
        except torch.OutOfMemoryError:
            break
        call_s, left_s = statistics.median(seconds), left_s - spent_s
        found = ceiling_of(seconds, 2.0 * size**3, size)
        best = found if best is None or found.per_s > best.per_s else best
    return best


def copy_ceiling(device: Device, num_bytes: int, limit_s: float, from_host: bool = False) -> Ceiling | None:
    """Measure how fast memory is copied [bytes/s].

    Args:
        device: Where.
        num_bytes: Size of the buffer; larger than any cache.
        limit_s: Time spent on repeats [s].
        from_host: Copy from page-locked host memory to the device, each byte counted once; else within the device's
            memory, each byte counted twice: it is read and written.

    Returns:
        The ceiling; None where there is no memory for it.
    """
    try:
        source = torch.ones(num_bytes, dtype=torch.uint8, device="cpu" if from_host else device.torch_device)
        source = source.pin_memory() if from_host else source
        target = torch.empty(num_bytes, dtype=torch.uint8, device=device.torch_device)
        seconds, _ = time_repeats(device, lambda: target.copy_(source, non_blocking=True), limit_s)
    except torch.OutOfMemoryError:
        return None
    return ceiling_of(seconds, num_bytes * (1 if from_host else 2), num_bytes)


def time_repeats(device: Device, call: Callable[[], object], limit_s: float) -> tuple[list[float], float]:
    """Time a call again and again, for about `limit_s`.

    Returns:
        Seconds of one call, by each repeat; and what all of them took together, without the first, untimed call [s].
    """
    call()
    device.synchronise()
    once_s = max(_time(device, call, 1), 1e-9)
    calls = max(1, math.ceil(_REPEAT_S / once_s))
    seconds: list[float] = []
    spent_s = once_s
    while len(seconds) < _FEWEST_REPEATS or (spent_s < limit_s and len(seconds) < _MOST_REPEATS):
        repeat_s = _time(device, call, calls)
        seconds.append(repeat_s / calls)
        spent_s += repeat_s
    return seconds, spent_s


def ceiling_of(seconds: Sequence[float], work: float, size: int) -> Ceiling:
    """Turn the durations of one call into a ceiling; `work` is what a call does [FLOPs, or bytes]."""
    median_s = statistics.median(seconds)
    tenths = statistics.quantiles(seconds, n=10, method="inclusive")
    return Ceiling(work / median_s, (tenths[-1] - tenths[0]) / median_s, size, len(seconds))


def _product_into(left: torch.Tensor, right: torch.Tensor, product: torch.Tensor) -> Callable[[], object]:
    return lambda: torch.mm(left, right, out=product)


def _time(device: Device, call: Callable[[], object], calls: int) -> float:
    """Time so many calls in a row between two marks [s]."""
    begin = device.mark()
    for _ in range(calls):
        call()
    end = device.mark()
    device.wait(end)
    return device.seconds_between(begin, end)


def _calls_of_one_size() -> int:
    """Count the calls that a size takes at least: one untimed, one to estimate, and the repeats."""
    return 2 + _FEWEST_REPEATS
