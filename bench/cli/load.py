"""What several commands do first: read the sweep file and learn what this machine can run."""

from __future__ import annotations

from pathlib import Path

import click

from bench.machine.environment import machine_facts
from bench.standin import is_standin
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
    facts = machine_facts(sweep.devices_asked())
    say_if_standin(facts)
    return sweep, facts


def say_if_standin(facts: MachineFacts) -> None:
    """Name a stand-in GPU on stderr before anything runs on it."""
    if facts.device == "cuda" and is_standin():
        click.echo("stand-in GPU: rows hold bytes, counts and errors; speed, loss and energy are null", err=True)
