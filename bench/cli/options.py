"""Arguments and options that several commands share, so that they are called and explained alike."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bench.errors import BenchError, StorageError
from bench.report.wrap import wrap

if TYPE_CHECKING:
    from bench.report.table import Format

Command = TypeVar("Command", bound=Callable[..., Any])

NO_LIMIT = 10_000
"""Width of a table that goes into a pipe or a file [characters]."""


class NamedPath(click.Path):
    """Take the path of a file or folder; an empty one, as an unset variable of a script gives, is none."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse what names nothing: pathlib takes it for the current folder."""
        if os.fspath(value) == "":
            self.fail("the path is empty. Name one, or leave the option out.", param, ctx)
        return super().convert(value, param, ctx)


OUT_FOLDER = NamedPath(file_okay=False)
"""Folder to write to, made if need be."""


@contextmanager
def out_named() -> Iterator[None]:
    """Name the option that chooses another place, where one cannot be written."""
    try:
        yield
    except StorageError as error:
        raise StorageError(f"{error} Choose another place with --out.") from error


def require_current_folder() -> None:
    """Refuse to start processes from a folder that is gone: neither their interpreter nor torch can work there.

    Raises:
        BenchError: The current folder was deleted.
    """
    try:
        Path.cwd()
    except OSError as error:
        raise BenchError(f"The current folder is gone: {error.strerror}. Change to another one (cd).") from error


def results_argument(command: Command) -> Command:
    """Add RESULTS..., one or more results folders or parquet files."""
    kind = NamedPath()
    return click.argument("results", metavar="RESULTS...", nargs=-1, required=True, type=kind)(command)


def where_option(command: Command) -> Command:
    """Add --where, repeatable."""
    return click.option(
        "--where",
        multiple=True,
        metavar="'COLUMN OP VALUE'",
        help="Keep only rows that match, such as 'amp_mode == bf16' or 'peak_allocated_bytes < 4e9'. OP is one of "
        "== != < <= > >=; VALUE is in base units (bytes, seconds, tokens), or null for missing. May be repeated: a "
        "row must match all.  [default: all rows]",
    )(command)


def pool_option(command: Command) -> Command:
    """Add --pool."""
    return click.option(
        "--pool",
        is_flag=True,
        help="Make one set of rounds of all RESULTS, as of parts of one sweep; a launch that is in several counts "
        "once.  [default: the rows of each stand under its own name]",
    )(command)


def columns_option(command: Command) -> Command:
    """Add --columns, a comma-separated list; the command gets a tuple of names."""
    return click.option(
        "--columns",
        callback=_split_names,
        metavar="NAME,...",
        help="Show these columns, in this order; docs/columns.md lists them with their units.  "
        "[default: the main ones for table, markdown and latex; all for csv and json]",
    )(command)


def format_option(command: Command) -> Command:
    """Add --format."""
    return click.option(
        "--format",
        type=click.Choice(["table", "csv", "markdown", "latex", "json"]),
        default="table",
        show_default=True,
        help="How to write the rows. csv and json are in base units; the others scale bytes and name the unit.",
    )(command)


def chosen_format(name: str) -> Format:
    """Give the format of that name."""
    from bench.report.table import FORMATS

    return next(known for known in FORMATS if known == name)


def terminal_width() -> int:
    """Say how wide stdout is [characters]; without a limit when it is no terminal. COLUMNS overrides both."""
    return shutil.get_terminal_size((NO_LIMIT, 24)).columns


def hang(start: str, text: str, width: int, indent: int | None = None) -> list[str]:
    """Break text at the width after `start`; further lines are indented below the text, or by so many columns."""
    return wrap(text, width, start, " " * (len(start) if indent is None else indent))


def terminal_color() -> bool:
    """Say whether stdout may have colours: a terminal, and neither NO_COLOR nor TERM=dumb."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _split_names(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    del context, parameter
    return tuple(name.strip() for name in (value or "").split(",") if name.strip())
