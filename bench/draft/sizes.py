"""Which sizes are worth a trial: numbers of GPUs, micro-batches, and the time limits that the work asks for."""

from __future__ import annotations

import math

from bench.sweep.presets import ModelShape
from bench.workload.flops import model_flops

LARGEST_LISTED = 32
"""Largest micro-batch size that is listed for a CPU, where more gains nothing."""
_SLOW_FLOPS_PER_S = {"cpu": 1e10, "cuda": 5e12}
"""Slower than any machine worth training on: for limits that must not end a launch that works [FLOP/s]."""
USUAL_START_S, USUAL_LAUNCH_S = 120, 1800
"""Defaults of measure.start_timeout_s and measure.timeout_s [s]."""


def world_sizes(gpus: int, global_batch_size: int) -> tuple[list[int], list[int]]:
    """List the powers of two up to the number of GPUs, and that number: those that share the batch, and those not."""
    sizes = sorted({1 << exponent for exponent in range(gpus.bit_length())} | {gpus})
    return (
        [size for size in sizes if global_batch_size % size == 0],
        [size for size in sizes if global_batch_size % size],
    )


def shared_batches(global_batch_size: int, gpus: int) -> list[int]:
    """Give the nearest global batch sizes that so many GPUs share equally."""
    below = global_batch_size // gpus * gpus
    return [size for size in (below, below + gpus) if size > 0]


def listed_sizes(global_batch_size: int) -> list[int]:
    """List micro-batch sizes that divide, each at least twice the one before [sequences]."""
    sizes = [1]
    for size in range(2, min(global_batch_size, LARGEST_LISTED) + 1):
        if global_batch_size % size == 0 and size >= 2 * sizes[-1]:
            sizes.append(size)
    return sizes


def update_flops(shape: ModelShape, global_batch_size: int, seq_len: int) -> int:
    """Count what one update computes, all ranks [FLOPs]."""
    slots = global_batch_size * seq_len
    return model_flops(shape, slots, slots * seq_len)


def time_limits(device: str, flops: int) -> tuple[int, int] | None:
    """Give the limits of the first update and of the launch for an update so long; null where the usual ones do [s].

    One rank makes the update alone. A launch makes four whole updates and shortened ones (docs/method.md); ten leave
    room.
    """
    update_s = flops / _SLOW_FLOPS_PER_S[device]
    if update_s <= USUAL_START_S:
        return None
    digits = 10 ** (int(math.log10(update_s)) - 1)
    start_s = math.ceil(update_s / digits) * digits
    return start_s, max(USUAL_LAUNCH_S, 10 * start_s)
