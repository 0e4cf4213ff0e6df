"""The command line: thin commands over the library; the only room that imports click.

In the user's process, without torch. Read `sweep.py` first.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from typing import Any

import click

from bench.cli.signals import CommandEnded, ended_by_signals
from bench.cli.streams import data_written, patient_streams
from bench.errors import BenchError, StorageError

COMMANDS = {
    "init": "bench.cli.init",
    "sweep": "bench.cli.sweep",
    "plan": "bench.cli.plan",
    "run": "bench.cli.run",
    "check": "bench.cli.check",
    "show": "bench.cli.show",
    "compare": "bench.cli.compare",
    "recommend": "bench.cli.recommend",
    "plot": "bench.cli.plot",
    "report": "bench.cli.report",
    "env": "bench.cli.env",
    "schema": "bench.cli.schema",
}
"""Command to the module that holds it under its own name; in the order of the help. Loaded when used."""

EXIT_CODES = """\b
Exit codes:
  0  done; out of memory, pruned and skipped are results
  1  some trials of the folder failed, or a check failed
  2  usage or bad input
  3  another sweep is using the folder
  4  results cannot be written or read, or stdout takes no more, as on a full disk
  5  the machine lacks what was asked for, such as a GPU
  129, 130, 143  interrupted by SIGHUP, Ctrl-C, SIGTERM; finished launches are kept
A reader of stdout that goes away, as under `| head`, changes none of them.
"""


class BenchGroup(click.Group):
    """Load each command when it is used, and turn the library's errors into messages and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in their order of use."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name]), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a mistyped one gets the nearest name."""
        near = difflib.get_close_matches(args[0], COMMANDS, n=1)
        if args[0] not in COMMANDS and near:
            ctx.fail(f"There is no command {args[0]!r}. Did you mean {near[0]}?")
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the program; what happens to its streams, and signals, end it in words and with their exit codes."""
        with patient_streams():
            try:
                with ended_by_signals(), data_written():
                    return super().main(*args, **options)
            except CommandEnded as ended:
                click.echo("interrupted", err=True)
                sys.exit(ended.exit_code)
            except StorageError as error:
                click.echo(f"Error: {error}", err=True)
                sys.exit(error.exit_code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error meant for the user becomes its message on stderr and its exit code."""
        try:
            return super().invoke(ctx)
        except BenchError as error:
            click.echo(f"Error: {error}" if len(str(error).splitlines()) == 1 else f"Errors:\n{error}", err=True)
            ctx.exit(error.exit_code)


@click.group(
    cls=BenchGroup,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="accumbench", prog_name="bench")
def main() -> None:
    """Measure memory and throughput of training with gradient accumulation.

    Write what to vary into a sweep file, run it, and compare. `bench COMMAND --help` explains each command.

    \b
    Example:
      bench init quickstart
      bench sweep quickstart.yaml
    """
