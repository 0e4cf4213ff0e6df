"""How long a launch warms up and measures: the three presets. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from bench.statistics.steady import WarmupRule
from bench.statistics.stopping import StopRule


@dataclass(frozen=True)
class Length:
    """Hold the two rules of an adaptive launch."""

    warmup: WarmupRule
    stop: StopRule
    whole_updates_s: float
    """What warm-up and three whole updates may take; windows of longer updates are shortened [s]."""


LENGTHS: dict[str, Length] = {
    # Steady to what quick aims at: a tighter rule would warm up for longer than quick measures.
    "quick": Length(
        WarmupRule(window=10, tolerance=0.02, device_s=1.0, device_s_at_most=3.0),
        StopRule(0.02, samples_at_least=10, seconds_at_least=1.0, seconds_at_most=3.0, samples_at_most=160),
        whole_updates_s=20.0,
    ),
    "normal": Length(
        WarmupRule(window=10, tolerance=0.005, device_s=3.0),
        StopRule(0.005, samples_at_least=30, seconds_at_least=5.0, seconds_at_most=60.0, samples_at_most=640),
        whole_updates_s=60.0,
    ),
    "strict": Length(
        WarmupRule(window=20, tolerance=0.003, device_s=3.0),
        StopRule(0.0025, samples_at_least=60, seconds_at_least=10.0, seconds_at_most=300.0, samples_at_most=1280),
        whole_updates_s=300.0,
    ),
}
"""By the name that `measure.preset` takes."""
