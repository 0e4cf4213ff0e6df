"""What a sweep says while it runs, by a counted clock."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

from rich.console import Console

from bench.cli.progress import SweepProgress

ROW = {"outcome": "ok", "valid_tokens_per_s": 1000.0, "peak_allocated_bytes": 1024**2, "launch_s": 1.0}
FAILED = {"outcome": "failed", "phase": "build", "reason": "RuntimeError: boom"}


class Watched:
    """Hold a progress, its clock and what it said."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._text = io.StringIO()
        self.progress = SweepProgress(Console(file=self._text, width=200), lambda: self.now_s)

    def begin(self, launches: int, is_estimate: bool = False) -> None:
        self.progress.expect(launches, is_estimate)
        self.progress.sweep_begin(launches, 0, 0)

    def end(self, seconds: float, left: int, is_estimate: bool = False, row: dict[str, Any] = ROW) -> str:
        """End a launch that took so long; give the line that says so."""
        launch = cast(Any, SimpleNamespace(round=0, attempt=0, trial=SimpleNamespace(name=lambda: "fp32 4 x 2")))
        self.progress.launch_begin(launch)
        self.now_s += seconds
        self.progress.expect(left, is_estimate)
        self.progress.launch_end(launch, row)
        return self.lines()[-1]

    def lines(self) -> list[str]:
        return self._text.getvalue().splitlines()


def test_time_left_is_the_mean_of_all_launches_but_the_first_which_waits_for_the_server() -> None:
    """Failures count as what they took: what is left will fail about as often."""
    watched = Watched()
    watched.begin(5)
    assert watched.end(60.0, 4).endswith("(4 left, about 4.00 min)")
    assert watched.end(10.0, 3).endswith("(3 left, about 30.0 s)")
    assert watched.end(2.0, 2, row=FAILED).endswith("(2 left, about 12.0 s)")
    assert "left" not in watched.end(6.0, 0)


def test_numbers_are_called_estimates_while_a_search_goes_on_and_follow_what_it_finds() -> None:
    """It took more probes than were expected, then fewer launches were left."""
    watched = Watched()
    watched.begin(9, is_estimate=True)
    assert watched.lines() == ["about 9 to run"]
    line = watched.end(1.0, 9, is_estimate=True)
    assert line.startswith(" 1/~10 ")
    assert "(about 9 left" in line
    line = watched.end(1.0, 3)
    assert line.startswith("2/5 ")
    assert "(3 left" in line


def test_trial_that_need_not_run_is_taken_off_by_what_is_expected_alone() -> None:
    """One that was never counted takes nothing off."""
    watched = Watched()
    watched.begin(2)
    watched.progress.place_left_out("fp32 8 x 1", "ran out of memory already")
    assert watched.end(1.0, 1).startswith("1/2 ")


def test_a_launch_that_was_interrupted_does_not_count_as_ended() -> None:
    """It runs again: the number of launches does not grow because one was stopped."""
    watched = Watched()
    watched.begin(24)
    assert watched.end(1.0, 24, row={"outcome": "interrupted", "reason": "SIGINT"}).startswith(
        "fp32 4 x 2  interrupted"
    )
    assert watched.end(1.0, 23).startswith(" 1/24 ")
