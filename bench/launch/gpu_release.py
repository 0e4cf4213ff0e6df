"""After a launch its GPU memory must be free again: otherwise the next trial could run out of memory because of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from bench.errors import EnvironmentFault
from bench.telemetry.nvml import NvmlReport, read_nvml

_PATIENCE_S = 10.0
_POLL_S = 0.5


def wait_for_release(
    pids: Collection[int],
    read: Callable[[], NvmlReport] = read_nvml,
    sleep: Callable[[float], None] = time.sleep,
    is_interrupted: Callable[[], bool] = lambda: False,
) -> None:
    """Wait until no ended rank is left on a GPU, as far as NVML tells.

    Args:
        pids: process ids of the ranks that have ended.
        read: asks NVML.
        sleep: waits so many seconds.
        is_interrupted: whether a signal came: then no further launch depends on it, and nothing is waited for.

    Raises:
        EnvironmentFault: The driver still holds memory for one of them; names process and GPU.
    """
    left: list[str] = []
    for _ in range(int(_PATIENCE_S / _POLL_S) + 1):
        left = [
            f"process {process.pid} on GPU {gpu.index}"
            for gpu in read().gpus
            for process in gpu.processes or ()
            if process.pid in pids
        ]
        if not left or is_interrupted():
            return
        sleep(_POLL_S)
    raise EnvironmentFault(
        f"GPU memory of an ended launch is still held after {_PATIENCE_S:g} s: {', '.join(left)}. Further launches "
        "would have less memory. Find out what holds it (nvidia-smi), then run the command again."
    )
