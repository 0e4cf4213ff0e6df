"""Which devices a sweep asks for, and the command line's word over it."""

from __future__ import annotations

from dataclasses import replace

from bench.errors import BenchError
from bench.sweep.trial import Sweep


def devices_asked(sweep: Sweep) -> set[str]:
    """List every value of `device` that a trial of this sweep has: auto, cpu, cuda."""
    base = sweep.spec.base.device
    if sweep.spec.trials:
        return {settings.get("device", base) for settings in sweep.spec.trials}
    return set(sweep.spec.axes.get("device", [base]))


def on_device(sweep: Sweep, device: str) -> Sweep:
    """Let every trial run on this device instead of the one in the file.

    Raises:
        BenchError: the sweep varies the device, so one for all contradicts it.
    """
    if "device" in sweep.axes:
        raise BenchError(
            f"--device {device} - {sweep.path or sweep.name} varies the device itself - leave one of the two out."
        )
    base = sweep.spec.base.model_copy(update={"device": device})
    return replace(sweep, spec=sweep.spec.model_copy(update={"base": base}))
