"""Live progress of a sweep on stderr: a bar on a terminal, one line per launch otherwise."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from bench.run.schedule import PlannedLaunch
from bench.units import format_bytes, format_rate, format_seconds


class SweepProgress:
    """Show what runs, what is done, how long is left, and how each launch ended."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # FORCE_COLOR makes rich believe in a terminal even where stderr is a file.
        is_terminal = console.is_terminal and os.isatty(2)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not is_terminal,
            transient=True,
        )
        self._task: TaskID | None = None
        self._total = 0
        self._ended = 0
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        """Start drawing."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing and free the line."""
        self._bar.stop()

    def sweep_begin(self, launches: int, done: int, skipped: int) -> None:
        """Say how much there is to do."""
        parts = [f"{launches} to run"] + [f"{done} done before"] * bool(done) + [f"{skipped} skipped"] * bool(skipped)
        self._console.print(", ".join(parts), highlight=False, soft_wrap=True)
        self._total = launches
        self._started = time.monotonic()
        self._task = self._bar.add_task("", total=launches, left="")

    def launch_begin(self, launch: PlannedLaunch) -> None:
        """Show the trial under way."""
        assert self._task is not None, "sweep_begin comes first"
        self._bar.update(self._task, description=escape(launch.trial.label()))

    def waiting(self) -> None:
        """Let the bar draw itself; it has a thread of its own."""

    def launch_end(self, launch: PlannedLaunch, row: Mapping[str, Any]) -> None:
        """Print one line and move the bar on."""
        assert self._task is not None, "sweep_begin comes first"
        self._ended += 1
        per_launch = (time.monotonic() - self._started) / self._ended
        left_s = per_launch * (self._total - self._ended)
        self._bar.update(self._task, advance=1, left=f"about {format_seconds(left_s)} left" if left_s else "")
        number = f"{self._ended:>{len(str(self._total))}}/{self._total}"
        self._console.print(
            f"{number}  {escape(launch.trial.label())}  {escape(describe_end(row))}", highlight=False, soft_wrap=True
        )


def describe_end(row: Mapping[str, Any]) -> str:
    """Say in a few words how a launch ended."""
    if row["outcome"] == "ok":
        rate = format_rate(row.get("valid_tokens_per_s"), "valid tokens")
        return f"ok  {rate}  {format_bytes(row.get('peak_allocated_bytes'))}  in {format_seconds(row['launch_s'])}"
    where = f" in {row['phase']}" if row.get("phase") else ""
    return f"{row['outcome']}{where}: {row.get('reason') or 'no reason known'}"
