"""Every command explains itself, in its help and in the docs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from bench.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_command_help_has_an_imperative_line_and_an_example_of_itself(name: str) -> None:
    """The first line ends with a full stop; the example can be pasted."""
    command = main.get_command(click.Context(main), name)
    assert command is not None
    # With its parent, as a user meets it: click keeps the first help option that a command ever made.
    text = command.get_help(click.Context(command, info_name=name, parent=click.Context(main, info_name="bench")))
    assert re.search(rf"Example:\s+bench {name}", text), text
    first = (command.help or "").splitlines()[0]
    assert first.endswith(".")
    assert not first.split()[0].endswith("s"), "imperative: Run, not Runs"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_help(name: str) -> None:
    """No option is left unexplained."""
    command = main.get_command(click.Context(main), name)
    assert command is not None
    silent = [p.name for p in command.params if isinstance(p, click.Option) and not p.help]
    assert silent == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_readme(name: str) -> None:
    """A newcomer finds each command from the README."""
    assert f"bench {name}" in (ROOT / "README.md").read_text()


def test_command_page_is_fresh() -> None:
    """Regenerate with: python -m bench.cli.docs > docs/cli.md."""
    # In a process of its own: click keeps the first help option a command made; other tests call commands bare.
    done = subprocess.run(
        [sys.executable, "-m", "bench.cli.docs"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (ROOT / "docs" / "cli.md").read_text() == done.stdout
