"""How samples of the user's own data are cut for a proof, and what the cases showed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Case:
    """State how a window's samples are cut, and the optimizer."""

    name: str
    sizes: tuple[int, ...]
    """Samples of each micro-batch."""
    accumulation_steps: int
    """On one rank; several share them."""
    optimizer: Literal["sgd", "adamw"] = "sgd"


CASES = (
    Case("full windows of equal micro-batches", (2, 2, 2, 2), 2),
    Case("unequal micro-batches, then a partial window", (3, 1, 2, 1, 1), 3),
    Case("one accumulation step", (2, 3), 1, "adamw"),
    Case("one micro-batch in a window of three", (2,), 3, "adamw"),
)
MOST_SAMPLES = 8
"""Samples that a proof takes at most."""
TOLERANCE = 1e-10
"""Largest relative error of a gradient or an applied update in float64."""


@dataclass
class Found:
    """Collect what the cases showed."""

    gradient_error: float = 0.0
    update_error: float = 0.0
    where: str = ""
    updates: int = 0
    samples: int = 0
    wrong_counts: list[str] = field(default_factory=list)
    with_gradient: set[str] = field(default_factory=set)
