"""What ends a rank just after its start. Real processes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from bench.launch.interrupts import Interrupts
from bench.launch.launcher import Launcher, StartMethod
from bench.launch.watchdog import LaunchLimits
from bench.record.paths import LaunchPaths
from tests import rank_that_dawdles
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_rank_that_is_ended_before_it_has_a_log_says_nothing_on_the_terminal(
    method: StartMethod, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A time limit or Ctrl-C may come at any moment; what Python says of it goes to the rank's log."""
    launcher = Launcher(method, rank_that_dawdles.run, preload=())
    interrupts = Interrupts()

    def end_it_where_it_stands() -> None:
        if (tmp_path / rank_that_dawdles.HERE).exists():
            interrupts.number = signal.SIGINT

    limits = LaunchLimits(PATIENCE_S, PATIENCE_S)
    end = launcher.run("no.work:here", LaunchPaths(tmp_path), [0], limits, end_it_where_it_stands, interrupts)
    assert end.stopped is not None
    assert end.stopped.outcome == "interrupted"
    assert capfd.readouterr() == ("", "")
    assert LaunchPaths(tmp_path).rank_log(0).read_text().strip().endswith("KeyboardInterrupt")
