"""Launch the ranks of one trial in fresh processes, from warm servers or from nothing. No torch here."""

from __future__ import annotations

import multiprocessing
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any, Literal

from bench.launch import rank_process
from bench.launch.files import set_aside
from bench.launch.interrupts import Interrupts
from bench.launch.meeting_place import meeting_place, remove_leftovers
from bench.launch.outcome import RankEnd
from bench.launch.process_table import (
    ProcessId,
    descendants,
    identify,
    is_alive,
    is_dead,
    kill_descendants,
    kill_processes,
    kill_with_token,
)
from bench.launch.server_wait import ServerSilent, answer_awaited
from bench.launch.servers import ServerPool
from bench.launch.start_guards import limits_named, without_main_module
from bench.launch.under_way import LaunchUnderWay
from bench.launch.watchdog import LaunchLimits, Stopped
from bench.record.fault_points import reach
from bench.record.paths import LaunchPaths

StartMethod = Literal["forkserver", "spawn"]
RankFunction = Callable[[str, int, int, str], None]
"""What a fresh process runs: folder of the launch, rank, process id of its parent, name of the work."""

_SERVER_IS_GONE = 255
"""Exit code that multiprocessing makes up for a process whose fork server died."""


@dataclass(frozen=True)
class LaunchEnd:
    """State how the processes of a launch ended."""

    ranks: tuple[RankEnd, ...]
    stopped: Stopped | None
    """Why the driver stopped it; None if it ended by itself."""
    seconds: float
    """From the request to the reaped exit of the last process [s]."""
    flags: tuple[str, ...] = ()
    """What was unusual: suspended, started_by_spawn, server_stalled."""
    pids: tuple[int, ...] = ()
    """Process ids that the ranks had."""


class Launcher:
    """Start ranks from warm servers of the standard library; one launcher serves a whole sweep."""

    def __init__(
        self,
        start_method: StartMethod = "forkserver",
        rank_function: RankFunction = rank_process.run,
        *,
        preload: Sequence[str],
    ) -> None:
        self._start_method: StartMethod = start_method
        self._rank_function = rank_function
        self.token = uuid.uuid4().hex
        """Marks every process of this launcher's ranks, and what they start."""
        self._servers = ServerPool(self.token, preload)

    def warm_up(self, environment: Mapping[str, str] | None = None) -> None:
        """Start a server now; its imports go on while the caller does something else."""
        remove_leftovers()
        if self._start_method == "forkserver":
            with limits_named():
                self._servers.start(environment or {})

    def run(
        self,
        work: str,
        paths: LaunchPaths,
        ranks: Sequence[int],
        limits: LaunchLimits,
        on_wait: Callable[[], None] = lambda: None,
        interrupts: Interrupts | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> LaunchEnd:
        """Run these ranks to their end, whatever it is; `on_wait` is called a few times a second.

        Args:
            work: what each rank does, as `rank_process.run` takes it.
            paths: files of the launch.
            ranks: numbers of the ranks.
            limits: when to give up.
            on_wait: called while waiting.
            interrupts: signals that end the launch.
            environment: variables that torch reads when it is imported.

        Raises:
            EnvironmentFault: The machine has no process or file descriptor left; names the limit. Or several ranks
                have no place to meet on this node.
            StorageError: Their meeting place cannot be told to them: the launch's folder cannot be written.
        """
        launch = LaunchUnderWay(paths, limits, on_wait, interrupts or Interrupts())
        started_s = time.monotonic()
        environment = environment or {}
        if self._start(work, launch, ranks, self._start_method, environment) == "stalled" and launch.may_start_again():
            set_aside(paths, ranks)
            self._start(work, launch, ranks, self._start_method, environment)
        unfit = any(process.exitcode == rank_process.UNFIT for process in launch.processes.values())
        if unfit and launch.stopped is None:
            launch.flags.append("started_by_spawn")
            set_aside(paths, ranks)
            self._start(work, launch, ranks, "spawn", environment)
        seconds, pids = time.monotonic() - started_s, launch.pids()
        return LaunchEnd(launch.release(ranks), launch.stopped, seconds, tuple(launch.flags), pids)

    def _start(
        self,
        work: str,
        launch: LaunchUnderWay,
        ranks: Sequence[int],
        method: StartMethod,
        environment: Mapping[str, str],
    ) -> Literal["stalled"] | None:
        """Start the ranks by this method, wait for them and clear up.

        Returns:
            "stalled" when a server that had started ranks before did not answer any more; it is gone, and a new one
            may.
        """
        with meeting_place(launch.paths, len(ranks)):  # a new one each time: a try before may have left its word
            return self._start_in_place(work, launch, ranks, method, environment)

    def _start_in_place(
        self,
        work: str,
        launch: LaunchUnderWay,
        ranks: Sequence[int],
        method: StartMethod,
        environment: Mapping[str, str],
    ) -> Literal["stalled"] | None:
        launch.processes = {}
        began: list[ProcessId] = []
        stalled = False
        try:
            with limits_named(), without_main_module():
                reach("launch.spawn")
                for rank in ranks:
                    launch.processes[rank] = self._start_rank(work, launch, rank, method, environment)
                reach("launch.spawned")
            servers = [identify(pid) for pid in self._servers.pids()]
            launch.watch()
            if launch.stopped is None and _died(servers, launch.processes):
                launch.stopped = Stopped("killed", "the fork server was killed from outside, and its ranks with it")
        except ServerSilent:
            launch.blame_server()
            stalled = self._servers.has_answered(environment)
            self._servers.kill(environment)  # it was sent the signal; a dying one must not be asked again
        finally:
            if method == "spawn":
                began = [identify(pid) for parent in launch.pids() for pid in descendants(parent)]
            launch.end()
            if launch.is_server_stalled:
                self._servers.kill(environment)
            self._clear_up(method, began)
            reach("launch.ended")
        return "stalled" if stalled else None

    def _start_rank(
        self, work: str, launch: LaunchUnderWay, rank: int, method: StartMethod, environment: Mapping[str, str]
    ) -> BaseProcess:
        context: Any = multiprocessing.get_context(method)

        def start(parent: int) -> BaseProcess:
            arguments = (str(launch.paths.folder), rank, parent, work)
            process: BaseProcess = context.Process(
                target=self._rank_function, args=arguments, name=f"rank-{rank}", daemon=True
            )
            process.start()
            return process

        if method == "forkserver":
            with (
                self._servers.connected(environment) as server_pid,
                answer_awaited(server_pid, launch.is_enough),
            ):
                return start(server_pid)
        with self._servers.variables(environment):
            return start(os.getpid())

    def _clear_up(self, method: StartMethod, began: Sequence[ProcessId]) -> None:
        """Kill what the ranks started and left, such as data loaders in a session of their own.

        All that ranks of a fork server leave is below the server. What ranks without one had begun is given; beyond
        that, and where a server died, the token tells.
        """
        servers = self._servers.pids()
        kill_descendants(servers)
        kill_processes(began)
        if method == "spawn" or any(is_dead(pid) for pid in servers):
            kill_with_token(self.token, servers)


def _died(servers: Sequence[ProcessId], processes: Mapping[int, BaseProcess]) -> bool:
    """Tell whether a fork server was ended; its ranks then have the exit code that multiprocessing gives for that."""
    if not any(process.exitcode == _SERVER_IS_GONE for process in processes.values()):
        return False
    # Its files close, which is how the ranks were found ended, a moment before it is gone.
    deadline_s = time.monotonic() + 1.0
    while all(is_alive(server) for server in servers):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.01)
    return True
