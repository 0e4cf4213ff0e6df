"""How long DistributedDataParallel makes the host wait for its own timing at the start of a training run.

Its reducer takes times in the first ten iterations that synchronise gradients, and in every hundredth later; on a GPU
the host waits for them when the next such iteration starts (torch/csrc/distributed/c10d/reducer.cpp,
`should_collect_runtime_stats`, and logger.cpp, `set_runtime_stats_and_log`). So the eleventh is the last that waits.
"""

from __future__ import annotations

import math

from bench.sweep.fields import TrialConfig

WAITING_ITERATIONS = 11
"""Iterations that synchronise gradients, from the start, up to the last in which the host waits."""


def waiting_updates(config: TrialConfig, device_kind: str) -> int:
    """Count the updates from the start of a launch up to the last in which the host waits; 0 where it never does."""
    if config.world_size == 1 or device_kind != "cuda":
        return 0
    assert config.accumulation_steps is not None, "the trial is resolved"
    return math.ceil(WAITING_ITERATIONS / (config.accumulation_steps if config.gradient_sync == "every" else 1))
