"""`bench compare --reference`: this machine against a known one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.cli.options import chosen_format, terminal_color, terminal_width

if TYPE_CHECKING:
    from bench.decide.reference import ReferenceComparison

_UNDECIDED = {
    "other hardware": "the hardware is of another model",
    "other software": "torch, CUDA or the driver is another version",
    "other threads": "torch used another number of threads",
    "other method": "the results were measured by another version of the method",
}
"""Words that say nothing about the machine, and why."""


def hold_against_reference(
    paths: Sequence[Path],
    where: Sequence[str],
    name: str | None,
    format: str,
    fail_on: Sequence[str],
    force: bool,
) -> int:
    """Print the comparison, and give the exit code.

    Args:
        paths: Results of this machine.
        where: Conditions that narrow them.
        name: Name or path of the reference; null takes the one that fits best.
        format: One of the formats of tables.
        fail_on: What is a failure: slower, unclear.
        force: Compare also what another version of the method measured.
    """
    from bench.decide.reference import compare_with_reference
    from bench.decide.reference_output import render_reference
    from bench.report.launches import load_launches

    comparison = compare_with_reference(load_launches(paths, where, pool=True), name, force)
    text = render_reference(comparison, chosen_format(format), width=terminal_width(), color=terminal_color())
    if comparison.is_forced:
        click.echo("FORCED: results of different measurement versions are compared. See the notes.", err=True)
    click.echo(text, nl=False)
    return _gate(comparison, fail_on)


def _gate(comparison: ReferenceComparison, fail_on: Sequence[str]) -> int:
    """Say on stderr what fails the gate, and give the exit code."""
    if fail_on and comparison.word in _UNDECIDED:
        click.echo(f"--fail-on: {_UNDECIDED[comparison.word]}, so this is undecided.", err=True)
        return 2
    failures = []
    if "slower" in fail_on:
        failures += ["slower: this machine is slow"] * (comparison.word == "slow")
        failures += [f"slower: {one.name} has no speed here" for one in comparison.lost]
    if "unclear" in fail_on and comparison.word == "unclear":
        failures.append("unclear: whether this machine is slow")
    for failure in failures:
        click.echo(f"--fail-on {failure}", err=True)
    return 1 if failures else 0
