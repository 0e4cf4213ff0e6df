"""Which devices a sweep asks for, and the command line's word over it."""

from __future__ import annotations

from dataclasses import replace

from bench.errors import BenchError
from bench.sweep.trial import Sweep


def devices_asked(sweep: Sweep) -> set[str]:
    """List every value of `device` that a trial of this sweep has: auto, cpu, cuda."""
    return set(sweep.spec.axes.get("device", [sweep.spec.base.device]))


def on_device(sweep: Sweep, device: str) -> Sweep:
    """Let every trial run on this device instead of the one in the file.

    Raises:
        BenchError: the sweep varies the device, so one for all contradicts it.
    """
    if "device" in sweep.spec.axes:
        raise BenchError(f"--device {device} - {sweep.path} has device as an axis - leave one of the two out.")
    base = sweep.spec.base.model_copy(update={"device": device})
    return replace(sweep, spec=sweep.spec.model_copy(update={"base": base}))
