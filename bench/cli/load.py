"""What several commands do first: read the sweep file and learn what this machine can run."""

from __future__ import annotations

from pathlib import Path

from bench.machine.environment import machine_facts
from bench.sweep.expand import MachineFacts
from bench.sweep.file import load_sweep
from bench.sweep.trial import Sweep


def load_for_device(sweep_file: Path, device: str | None) -> tuple[Sweep, MachineFacts]:
    """Read a sweep file, put the asked device in, and ask the machine what `auto` means.

    Raises:
        SweepFileError: the file has faults.
        EnvironmentFault: a GPU is asked for or visible, and torch cannot use it.
    """
    sweep = load_sweep(sweep_file)
    if device is not None:
        sweep = sweep.on_device(device)
    return sweep, machine_facts(sweep.devices_asked())
