"""A sweep with another number of rounds: what a command may ask for, since it changes no number."""

from __future__ import annotations

from dataclasses import replace

from bench.sweep.trial import Sweep


def with_rounds(sweep: Sweep, rounds: int) -> Sweep:
    """Ask for so many passes over the trials; all else, the trials' ids included, stays."""
    measure = sweep.spec.measure.model_copy(update={"rounds": rounds})
    return replace(sweep, spec=sweep.spec.model_copy(update={"measure": measure}))
