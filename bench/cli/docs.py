"""Write docs/cli.md from the commands' own help: `python -m bench.cli.docs > docs/cli.md`."""

from __future__ import annotations

import click

from bench.cli import COMMANDS, main

_HEAD = """\
# Commands

What `--help` says, for reading in one go. Written by `python -m bench.cli.docs`; a test keeps it fresh.
"""
_WIDTH = 100


def docs_text() -> str:
    """Give the whole page."""
    root = click.Context(main, info_name="bench", max_content_width=_WIDTH, terminal_width=_WIDTH)
    sections = [_section("bench", main.get_help(root))]
    for name in COMMANDS:
        command = main.get_command(root, name)
        assert command is not None, f"{name} is registered"
        context = click.Context(command, info_name=name, parent=root, max_content_width=_WIDTH, terminal_width=_WIDTH)
        sections.append(_section(f"bench {name}", command.get_help(context)))
    return "\n".join([_HEAD, *sections])


def _section(title: str, text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return f"## {title}\n\n```\n{lines}\n```\n"


if __name__ == "__main__":
    click.echo(docs_text(), nl=False)
