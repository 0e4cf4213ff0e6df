"""What several commands do first: read the sweep file and learn what this machine can run."""

from __future__ import annotations

from pathlib import Path

import click

from bench.errors import SweepFileError
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


def data_faults(sweep: Sweep) -> list[str]:
    """Say which files of data a sweep names that are not there, or are not what they should be; one line each.

    Files are looked at, not read whole: no launch need start, and no results folder be made, to learn that.
    """
    from bench.sweep.data_files import data_specs, place_of, setting_of
    from bench.sweep.document import read_document
    from bench.sweep.flags import flag_of
    from bench.sweep.hf.files import model_faults
    from bench.workload.data import corpus

    found = [(place_of(text, places), text) for data, places in data_specs(sweep.spec) for text in corpus.faults(data)]
    found += model_faults(sweep.spec)
    found = list(dict.fromkeys(found))
    if sweep.path is None:  # the settings came from flags
        named = [(setting_of(text), text) for _, text in found]
        return [text.replace(setting, flag_of(setting), 1) if setting else text for setting, text in named]
    document = read_document(sweep.text)[0] if found else None
    return [f"{sweep.path}:{document.line(location) if document else 1}: {text}" for location, text in found]


def refuse_bad_data(sweep: Sweep) -> None:
    """Refuse a sweep whose files of data cannot be read, before anything runs.

    Raises:
        SweepFileError: Names each of them, with file and line.
    """
    if faults := data_faults(sweep):
        raise SweepFileError(faults)


def say_if_standin(facts: MachineFacts) -> None:
    """Name a stand-in GPU on stderr before anything runs on it."""
    if facts.device == "cuda" and is_standin():
        click.echo("stand-in GPU: rows hold bytes, counts and errors; speed, loss and energy are null", err=True)
