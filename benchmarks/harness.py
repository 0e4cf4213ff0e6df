"""What the measurements share: options, where they run, a table for people and a file for machines."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench.measure.host import cpu_model, usable_cores
from bench.units import format_seconds
from benchmarks.figures import Figure

QUIET_LOAD = 0.7
"""Load average above which others take so much of the processor that times mean little."""

WIDTH_OF_A_FILE = 170
"""Width of the table where it goes to no terminal [characters]."""

_COLOURS = {"met": "green", "not met": "bold red", "not shown": "yellow", "failed": "bold red", "": ""}


@dataclass(frozen=True)
class Measurement:
    """State what one measurement found, and under which load."""

    name: str
    load_before: float
    seconds: float
    figures: tuple[Figure, ...]


class Quiet:
    """Watch a sweep and pass on its notes alone."""

    def note(self, text: str) -> None:
        """Print to stderr."""
        say(text)

    def sweep_begin(self, launches: int, done: int, skipped: int) -> None:
        """Say nothing."""

    def expect(self, launches: int, is_estimate: bool) -> None:
        """Say nothing."""

    def launch_begin(self, launch: Any) -> None:
        """Say nothing."""

    def launch_end(self, launch: Any, row: Any) -> None:
        """Say nothing."""

    def place_left_out(self, label: str, reason: str) -> None:
        """Say nothing."""


def say(text: str) -> None:
    """Tell whoever waits how far it is; stdout is the table's."""
    print(text, file=sys.stderr, flush=True)


def parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """Make the options that every measurement has."""
    made = argparse.ArgumentParser(
        prog=f"python -m {name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--quick", action="store_true", help="less work: for a look, not for quoting")
    made.add_argument("--json", type=Path, metavar="FILE", help="keep the figures here")
    return made


def run(name: str, figures: Iterable[Figure], options: argparse.Namespace) -> None:
    """Draw the figures of one measurement, print the table and exit with 1 when a goal is not met.

    Figures are kept as they come, so that one cut short leaves those it had.
    """
    load, start = os.getloadavg()[0], time.monotonic()
    if load > QUIET_LOAD:
        say(f"warning: load average {load:.2f} before {name}: its times say little; run it on a quiet machine")
    found: list[Figure] = []
    for figure in figures:
        say(f"  {figure.line()}")
        found.append(figure)
        if options.json is not None:
            write([Measurement(name, load, time.monotonic() - start, tuple(found))], options.json, is_complete=False)
    finish([Measurement(name, load, time.monotonic() - start, tuple(found))], options.json)


def finish(measurements: Sequence[Measurement], file: Path | None) -> None:
    """Print the table, keep the figures, and exit: 1 when a goal is not met or a measurement failed."""
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH_OF_A_FILE
    console.print(table(measurements))
    if file is not None:
        write(measurements, file, is_complete=True)
    verdicts = [figure.verdict for measurement in measurements for figure in measurement.figures]
    counts = ", ".join(f"{verdicts.count(word)} {word}" for word in _COLOURS if word and word in verdicts)
    print(f"goals: {counts or 'none'}, in {format_seconds(sum(each.seconds for each in measurements))}")
    raise SystemExit(1 if {"not met", "failed"} & {*verdicts} else 0)


def table(measurements: Sequence[Measurement]) -> Table:
    """Lay figures out for people, grouped by measurement."""
    made = Table(box=box.SIMPLE_HEAD, title=_headline(), title_justify="left")
    for name in ("what", "goal", "reached", "interval"):
        made.add_column(name)
    made.add_column("", no_wrap=True)
    made.add_column("note")
    for each in measurements:
        when = f"load {each.load_before:.2f} before, {format_seconds(each.seconds)}"
        made.add_row(f"[bold]{each.name}[/bold]", "", "", "", "", when)
        for figure in each.figures:
            word = figure.verdict
            shown = f"[{_COLOURS[word]}]{word}[/]" if word else ""
            what = f"{figure.number} {figure.what}".strip()
            made.add_row(f"  {what}", figure.goal, figure.text(figure.reached), figure.interval, shown, figure.note)
    return made


def write(measurements: Sequence[Measurement], file: Path, *, is_complete: bool) -> None:
    """Keep figures for machines; base units, null for missing."""
    document = {
        "format": 1,
        "is_complete": is_complete,
        "written_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu_model": cpu_model(),
        "cpu_count": usable_cores(),
        "kernel": platform.release(),
        "python_version": platform.python_version(),
        "torch_version": version("torch"),
        "measurements": [
            {
                **asdict(each),
                "figures": [{**asdict(figure), "verdict": figure.verdict} for figure in each.figures],
            }
            for each in measurements
        ],
    }
    file.write_text(json.dumps(document, indent=1))


def read_figures(file: Path) -> tuple[list[Figure], bool]:
    """Read back the figures of one measurement, and whether they are all; none when there is no file."""
    if not file.exists():
        return [], False
    document = json.loads(file.read_text())
    (measurement,) = document["measurements"]
    fields = [{name: value for name, value in each.items() if name != "verdict"} for each in measurement["figures"]]
    return [Figure(**each) for each in fields], document["is_complete"]


def _headline() -> str:
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {cpu_model()}, {usable_cores()} cores, torch {version('torch')}, "
        f"Python {platform.python_version()}"
    )
