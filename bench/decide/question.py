"""What a recommendation is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from bench.report.fit import HEADROOM

BILLION = 1_000_000_000


@dataclass(frozen=True)
class Question:
    """Hold what is asked for."""

    global_batch_size: int | None = None
    """Sequences per update, exactly; null for the only one there is."""
    gpus: int | None = None
    """Ranks at most; null for as many as were measured."""
    run_tokens: int = BILLION
    """Valid tokens of the run, all ranks."""
    price_per_gpu_hour: float | None = None
    """Price of one GPU for an hour, in any currency."""
    headroom: float = HEADROOM
    """Share of the device's memory that must stay free."""
    accept_unproven: bool = False
    """Whether what is not proven, or not known to fit, competes with what is."""
