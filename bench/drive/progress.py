"""What a sweep reports to its watcher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from bench.drive.schedule import PlannedLaunch


class Progress(Protocol):
    """Watch a sweep from outside."""

    def note(self, text: str) -> None:
        """Report what was found in the folder and what was done about it."""

    def sweep_begin(self, launches: int, done: int, skipped: int) -> None:
        """Note how many launches are owed, already done and skipped."""

    def expect(self, launches: int, is_estimate: bool) -> None:
        """Note how many launches are left, about if a search is under way; before the first, and after each one."""

    def launch_begin(self, launch: PlannedLaunch) -> None:
        """Note that a launch starts."""

    def launch_end(self, launch: PlannedLaunch, row: Mapping[str, Any]) -> None:
        """Note how it ended."""

    def place_left_out(self, label: str, reason: str) -> None:
        """Note that a trial need not run, and why."""
