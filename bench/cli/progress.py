"""Live progress of a sweep on stderr: a bar on a terminal, one line per launch otherwise."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from bench.drive.schedule import PlannedLaunch
from bench.report.work_rate import speed_of, unit_words
from bench.units import format_bytes, format_rate, format_seconds

RESULTS_ALL_THE_SAME = frozenset({"ok", "oom", "oom_host", "interrupted"})
"""Outcomes that are results, or that somebody asked for, so that the summary of failures leaves them out."""


class SweepProgress:
    """Show what runs, what is done, how much and how long is left, and how each launch ended."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
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
        self._left = 0
        self._is_estimate = False
        self._ended = 0
        self._since_s = clock()
        self._ended_before = 0
        self._failures: list[str] = []

    def __enter__(self) -> Self:
        """Start drawing."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing, free the line, and say what went wrong over the whole run."""
        self._bar.stop()
        if self._failures:
            self._say(f"{len(self._failures)} of {self._ended} launches of this run failed:")
            for failure in self._failures:
                self._say(f"  {failure}")

    def note(self, text: str) -> None:
        """Say what was found in the folder."""
        self._say(f"note: {text}")

    def expect(self, launches: int, is_estimate: bool) -> None:
        """Take note of how many launches are left; a search may take more or fewer than were expected of it."""
        self._left, self._is_estimate = launches, is_estimate

    def sweep_begin(self, launches: int, done: int, skipped: int) -> None:
        """Say how much there is to do."""
        about = "about " * self._is_estimate
        parts = [f"{about}{launches} to run"]
        parts += [f"{done} done before"] * bool(done) + [f"{skipped} skipped"] * bool(skipped)
        self._say(", ".join(parts))
        self._since_s = self._clock()
        self._task = self._bar.add_task("", total=launches, left="")

    def launch_begin(self, launch: PlannedLaunch) -> None:
        """Show the trial under way."""
        assert self._task is not None, "sweep_begin comes first"
        again = f" (attempt {launch.attempt + 1})" if launch.attempt else ""
        self._bar.update(self._task, description=escape(f"round {launch.round + 1}  {launch.trial.name()}{again}"))

    def launch_end(self, launch: PlannedLaunch, row: Mapping[str, Any]) -> None:
        """Print one line and move the bar on."""
        assert self._task is not None, "sweep_begin comes first"
        if row["outcome"] == "interrupted":
            self._say(f"{launch.trial.name()}  {describe_end(row)}")  # it runs again, so it counts as left
            return
        self._ended += 1
        left, total = self._left, self._ended + self._left
        left_s = self._launch_s() * left
        in_words = f"{'about ' * self._is_estimate}{left} left, about {format_seconds(left_s)}" if left else ""
        self._bar.update(self._task, advance=1, total=total, left=in_words)
        number = f"{self._ended:>{len(str(total))}}/{'~' * self._is_estimate}{total}"
        end = f"{launch.trial.name()}  {describe_end(row)}"
        # Where there is no bar, the line itself says how long it will take.
        self._say(f"{number}  {end}" + (f"  ({in_words})" if self._bar.disable and left else ""))
        if row["outcome"] not in RESULTS_ALL_THE_SAME:
            self._failures.append(f"{end}" + (f"  [trial {row['trial_id']}]" if row.get("trial_id") else ""))

    def _launch_s(self) -> float:
        """Say how long a launch takes on average [s], however it ends; once there are others, without the first.

        The first also waits for the fork server, and where it proves the accumulation, mostly for that.
        """
        now_s = self._clock()
        launch_s = (now_s - self._since_s) / (self._ended - self._ended_before)
        if self._ended == 1:
            self._since_s, self._ended_before = now_s, 1
        return launch_s

    def place_left_out(self, label: str, reason: str) -> None:
        """Say that a trial need not run."""
        if self._task is not None:
            self._bar.update(self._task, total=self._ended + self._left)
        self._say(f"pruned  {label}  {reason}")

    def _say(self, text: str) -> None:
        self._console.print(escape(text), highlight=False, soft_wrap=True)


def describe_end(row: Mapping[str, Any]) -> str:
    """Say in a few words how a launch ended."""
    if row["outcome"] == "ok":
        rate = format_rate(speed_of(row), unit_words([row]))
        return f"ok  {rate}  {format_bytes(row.get('peak_allocated_bytes'))}  in {format_seconds(row['launch_s'])}"
    where = f" in {row['phase']}" if row.get("phase") else ""
    return f"{row['outcome']}{where}: {row.get('reason') or 'no reason known'}"
