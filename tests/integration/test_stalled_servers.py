"""A fork server that does not answer is waited for no longer than a limit or a signal allows. Real processes."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest import mock

import pytest

from bench.launch.interrupts import Interrupts
from bench.launch.launcher import LaunchEnd, Launcher
from bench.launch.outcome import decide
from bench.launch.process_table import descendants, is_dead, with_token
from bench.launch.watchdog import LaunchLimits
from bench.record.paths import LaunchPaths
from tests.integration import stalling
from tests.patience import HANG_S, PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

PATIENT = LaunchLimits(PATIENCE_S, PATIENCE_S, PATIENCE_S)
WARM = ("tests.integration.stalling",)


class Bank:
    """Launch ranks that do as told, each launch in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._launches = 0
        self.paths = LaunchPaths(folder)
        self.launcher = Launcher(rank_function=stalling.run_rank, preload=WARM)

    def run(
        self,
        work: str,
        limits: LaunchLimits = PATIENT,
        *,
        ranks: Sequence[int] = (0,),
        on_wait: Callable[[], None] = lambda: None,
        interrupts: Interrupts | None = None,
    ) -> LaunchEnd:
        """Run one launch."""
        self._launches += 1
        self.paths = LaunchPaths(self._folder / f"launch-{self._launches}")
        self.paths.folder.mkdir()
        return self.launcher.run(work, self.paths, ranks, limits, on_wait, interrupts)

    @property
    def server(self) -> int:
        """Name the only fork server."""
        (pid,) = self.launcher._servers.pids()
        return pid

    def stop_server(self) -> int:
        """Stop the server, so that it answers nothing."""
        os.kill(self.server, signal.SIGSTOP)
        return self.server


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    """Give a launcher with a warm server of its own; afterwards nothing of it is left."""
    bank = Bank(tmp_path)
    assert decide(bank.run("nothing").ranks).outcome == "ok"
    yield bank
    bank.launcher._servers.kill({})
    wait_until(lambda: not with_token(bank.launcher.token), "nothing is left")


def test_stalled_server_is_replaced_and_the_launch_starts_again(bank: Bank) -> None:
    """It had started ranks before: the launch is not to blame, and the row says that it happened."""
    stopped = bank.stop_server()
    # The limit has to fire on the server that never answers, and not on the new one, which answers some time.
    limits = _Shorter(PATIENT, lambda: not is_dead(stopped))
    end = bank.run("nothing", limits, ranks=(0, 1))
    assert decide(end.ranks, end.stopped).outcome == "ok"
    assert end.flags == ("server_stalled",)
    assert bank.server != stopped
    assert with_token(bank.launcher.token) == [bank.server]


def test_server_ends_with_the_launcher_that_started_it(bank: Bank) -> None:
    """At the latest with the interpreter; the kernel's own help comes too late for one that stalls before it asks."""
    server = bank.stop_server()
    bank.launcher = Launcher(preload=())
    gc.collect()
    wait_until(lambda: is_dead(server), "the server of the former launcher is gone")


def test_server_that_never_answered_is_a_timeout_of_the_start_and_is_gone(bank: Bank) -> None:
    """Its boot hangs, and would again: the launch says so at once, and the next one has a new server."""
    bank.launcher = Launcher(rank_function=stalling.run_rank, preload=("tests.integration.hanging_preload",))
    with mock.patch.object(bank.launcher._servers, "start", wraps=bank.launcher._servers.start) as start:
        end = bank.run("nothing", LaunchLimits(HANG_S, PATIENCE_S, PATIENCE_S))
    assert start.call_count == 1
    outcome = decide(end.ranks, end.stopped)
    assert (outcome.outcome, outcome.phase) == ("timeout", "start")
    assert outcome.reason == (
        "the fork server did not start the ranks: no micro-step finished within the start limit of 3 s "
        "(rank 0: no sign of life)"
    )
    assert with_token(bank.launcher.token) == []


@pytest.mark.parametrize(("limit", "outcome"), [("total_s", "timeout"), ("sweep_s", "interrupted")])
def test_every_limit_ends_the_wait_for_a_stalled_server(bank: Bank, limit: str, outcome: str) -> None:
    """The limit of the launch and that of the sweep hold while nothing has started yet; none is given twice."""
    bank.stop_server()
    end = bank.run("nothing", LaunchLimits(**{**vars(PATIENT), limit: HANG_S}))
    assert decide(end.ranks, end.stopped).outcome == outcome
    assert with_token(bank.launcher.token) == []


@pytest.mark.parametrize("ranks", [(0,), (0, 1)])
def test_signal_ends_the_wait_for_a_stalled_server(bank: Bank, ranks: Sequence[int]) -> None:
    """Ctrl-C and its like are noted while the standard library waits, and acted on."""
    bank.stop_server()
    with Interrupts() as interrupts:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
        end = bank.run("nothing", ranks=ranks, interrupts=interrupts)
    assert interrupts.number == signal.SIGTERM
    outcome = decide(end.ranks, end.stopped)
    assert (outcome.outcome, outcome.reason) == ("interrupted", "the sweep was interrupted")
    assert with_token(bank.launcher.token) == []


def test_rank_that_ended_well_is_ok_although_its_server_does_not_report_it(bank: Bank) -> None:
    """Its own result and the kernel's word for its end are the truth; the server is replaced."""
    stopped: list[int] = []

    def stop_server_then_let_go() -> None:
        if not stopped and descendants(bank.server):
            stopped.append(bank.stop_server())
            (bank.paths.folder / stalling.GO_ON).touch()

    end = bank.run("wait", on_wait=stop_server_then_let_go)
    assert decide(end.ranks, end.stopped).outcome == "ok"
    assert [rank.exit_code for rank in end.ranks] == [0]
    assert end.flags == ("server_stalled",)
    assert is_dead(stopped[0])
    assert decide(bank.run("nothing").ranks).outcome == "ok"


def test_ranks_of_a_stalled_server_are_ended_without_its_help(bank: Bank) -> None:
    """After a signal: the server does not report that the rank is dead, so the kernel is asked."""
    with Interrupts() as interrupts:

        def stop_server_then_end() -> None:
            if interrupts.number is None and descendants(bank.server):
                bank.stop_server()
                os.kill(os.getpid(), signal.SIGINT)

        end = bank.run("sleep", on_wait=stop_server_then_end, interrupts=interrupts)
    assert decide(end.ranks, end.stopped).outcome == "interrupted"
    # SIGINT is enough for this rank: no further rung of the ladder was needed.
    assert [rank.exit_code for rank in end.ranks] == [1]
    assert with_token(bank.launcher.token) == []


class _Shorter:
    """Limits whose start limit is short while something holds, and as long as the others after that."""

    def __init__(self, limits: LaunchLimits, is_short: Callable[[], bool]) -> None:
        self._limits = limits
        self._is_short = is_short

    def __getattr__(self, name: str) -> float | None:
        return HANG_S if name == "start_s" and self._is_short() else getattr(self._limits, name)


# What a rank leaves ------------------------------------------------------------------------------


def orphan_of(paths: LaunchPaths) -> int:
    """Name the process that the rank of a launch left."""
    return int((paths.folder / stalling.ORPHAN).read_text())


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
@pytest.mark.parametrize("work", ["leave_orphan", "leave_orphan_and_sleep"])
def test_orphan_without_our_environment_ends_with_its_launch(bank: Bank, method: str, work: str) -> None:
    """Double-forked, in a session of its own, its environment empty: only who started it still tells whose it is.

    Whatever the driver itself has started lives on, and so do the children of that.
    """
    bank.launcher._start_method = method  # type: ignore[assignment]
    own = subprocess.Popen(["sh", "-c", "sleep 36000 & sleep 36000"], start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(descendants(own.pid)) == 2, "the driver's own child has children")
        before = descendants(own.pid)
        with Interrupts() as interrupts:

            def interrupt() -> None:
                if work == "leave_orphan_and_sleep" and (bank.paths.folder / stalling.ORPHAN).exists():
                    os.kill(os.getpid(), signal.SIGINT)

            end = bank.run(work, on_wait=interrupt, interrupts=interrupts)
        assert decide(end.ranks, end.stopped).outcome == ("ok" if work == "leave_orphan" else "interrupted")
        wait_until(lambda: is_dead(orphan_of(bank.paths)), "the orphan is gone")
        assert own.poll() is None
        assert descendants(own.pid) == before
    finally:
        os.killpg(own.pid, signal.SIGKILL)
        own.wait()


def test_exit_code_of_the_drivers_own_child_is_left_to_who_started_it(bank: Bank) -> None:
    """A program that uses the launcher waits for its own processes: none of them is reaped by the launcher."""
    own = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
    wait_until(lambda: is_dead(own.pid), "it has ended")
    bank.run("nothing")
    assert own.wait() == 7
