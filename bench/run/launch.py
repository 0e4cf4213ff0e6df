"""Launch the ranks of one trial in fresh processes and wait for them, with a limit on every wait. No torch here."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

from bench.errors import EnvironmentFault
from bench.record.fault_points import reach
from bench.run import rank_process
from bench.run.ending import dump_stacks, end_ranks, signal_group
from bench.run.heartbeat import Beat, read_beat
from bench.run.interrupts import Interrupts
from bench.run.outcome import RankEnd
from bench.run.paths import LaunchPaths
from bench.run.process import adopt_orphans
from bench.run.process_table import (
    ProcessId,
    descendants,
    identify,
    is_alive,
    is_stopped,
    kill_with_token,
    reap_orphans,
)
from bench.run.servers import ServerPool
from bench.run.watchdog import LaunchLimits, Stopped, Watchdog

StartMethod = Literal["forkserver", "spawn"]
RankFunction = Callable[[str, int, int], None]
"""What a fresh process runs: folder of the launch, rank, process id of its parent."""

_POLL_S = 0.2
_PEER_GRACE_S = 3.0
"""After one rank ended badly, how long the others may take to end by themselves."""
_SUSPENDED_S = 2.0
"""A poll that comes so late means that this process was stopped, or the machine slept."""
_SERVER_IS_GONE = 255
"""Exit code that multiprocessing makes up for a process whose fork server died."""
_LOG_CAP_BYTES = 64 * 1024**2


@dataclass(frozen=True)
class LaunchEnd:
    """State how the processes of a launch ended."""

    ranks: tuple[RankEnd, ...]
    stopped: Stopped | None
    """Why the driver stopped it; None if it ended by itself."""
    seconds: float
    """From the request to the reaped exit of the last process [s]."""
    flags: tuple[str, ...] = ()
    """What was unusual: suspended, started_by_spawn."""
    pids: tuple[int, ...] = ()
    """Process ids that the ranks had."""


class Launcher:
    """Start ranks from warm servers of the standard library; one launcher serves a whole sweep."""

    def __init__(
        self,
        start_method: StartMethod = "forkserver",
        rank_function: RankFunction = rank_process.run,
        preload: Sequence[str] = ("bench.run.preload",),
    ) -> None:
        self._start_method: StartMethod = start_method
        self._rank_function = rank_function
        self.token = uuid.uuid4().hex
        """Marks every process of this launcher's ranks, and what they start."""
        self._servers = ServerPool(self.token, preload)

    def warm_up(self, environment: Mapping[str, str] | None = None) -> None:
        """Start a server now; its imports go on while the caller does something else."""
        adopt_orphans()
        if self._start_method == "forkserver":
            with _limits_named():
                self._servers.start(environment or {})

    def run(
        self,
        paths: LaunchPaths,
        ranks: Sequence[int],
        limits: LaunchLimits,
        on_wait: Callable[[], None] = lambda: None,
        interrupts: Interrupts | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> LaunchEnd:
        """Run these ranks to their end, whatever it is; `on_wait` is called a few times a second.

        Args:
            paths: files of the launch.
            ranks: numbers of the ranks.
            limits: when to give up.
            on_wait: called while waiting.
            interrupts: signals that end the launch.
            environment: variables that torch reads when it is imported.

        Raises:
            EnvironmentFault: The machine has no process or file descriptor left; names the limit.
        """
        launch = _Launch(paths, limits, on_wait, interrupts or Interrupts())
        started_s = time.monotonic()
        self._start(launch, ranks, self._start_method, environment or {})
        unfit = any(process.exitcode == rank_process.UNFIT for process in launch.processes.values())
        if unfit and launch.stopped is None:
            launch.flags.append("started_by_spawn")
            _set_aside(paths, ranks)
            self._start(launch, ranks, "spawn", environment or {})
        return launch.result(ranks, time.monotonic() - started_s)

    def _start(
        self, launch: _Launch, ranks: Sequence[int], method: StartMethod, environment: Mapping[str, str]
    ) -> None:
        """Start the ranks by this method, wait for them and clear up."""
        launch.processes = {}
        try:
            with _limits_named(), _without_main_module():
                reach("launch.spawn")
                for rank in ranks:
                    launch.processes[rank] = self._start_rank(launch.paths, rank, method, environment)
                reach("launch.spawned")
            servers = [identify(pid) for pid in self._servers.pids()]
            launch.watch()
            if launch.stopped is None and _died(servers, launch.processes):
                launch.stopped = Stopped("killed", "the fork server was ended from outside, and its ranks with it")
        finally:
            launch.end()
            self._clear_up()
            reach("launch.ended")

    def _start_rank(
        self, paths: LaunchPaths, rank: int, method: StartMethod, environment: Mapping[str, str]
    ) -> BaseProcess:
        context: Any = multiprocessing.get_context(method)

        def start(parent: int) -> BaseProcess:
            arguments = (str(paths.folder), rank, parent)
            process: BaseProcess = context.Process(
                target=self._rank_function, args=arguments, name=f"rank-{rank}", daemon=True
            )
            process.start()
            return process

        if method == "forkserver":
            with self._servers.connected(environment) as server_pid:
                return start(server_pid)
        with self._servers.variables(environment):
            return start(os.getpid())

    def _clear_up(self) -> None:
        """Kill what the ranks started and left, such as data loaders in a session of their own."""
        servers = self._servers.pids()
        kill_with_token(self.token, servers, among=descendants(os.getpid()))
        reap_orphans(servers)


class _Launch:
    """Hold one launch under way."""

    def __init__(
        self, paths: LaunchPaths, limits: LaunchLimits, on_wait: Callable[[], None], interrupts: Interrupts
    ) -> None:
        self.paths = paths
        self.processes: dict[int, BaseProcess] = {}
        self.stopped: Stopped | None = None
        self.flags: list[str] = []
        self._limits = limits
        self._on_wait = on_wait
        self._interrupts = interrupts
        self._ended_here: set[int] = set()
        self._said_before: dict[int, dict[str, Any] | None] = {}
        self._beat_before: dict[int, Beat | None] = {}

    def watch(self) -> None:
        """Wait until all ranks ended, one ended badly and the others had their grace, or the driver has had enough."""
        watchdog = Watchdog(self._limits, time.monotonic())
        bad_since: float | None = None
        last_look_s = time.monotonic()
        while True:
            alive = {rank: process for rank, process in self.processes.items() if process.exitcode is None}
            if not alive:
                return
            now_s = time.monotonic()
            if any(self._ended_badly(rank) for rank in self.processes if rank not in alive):
                bad_since = now_s if bad_since is None else bad_since
                if now_s - bad_since > _PEER_GRACE_S:
                    return
            if now_s - last_look_s > _SUSPENDED_S:
                watchdog.excuse(now_s - last_look_s, now_s)
                self._flag("suspended")
            last_look_s = now_s
            self.stopped = self._interrupted() or watchdog.look(self._beats(alive), now_s)
            if self.stopped is not None:
                return
            if self._interrupts.suspend_asked:
                self._suspend()
                continue
            wait([process.sentinel for process in alive.values()], timeout=_POLL_S)
            for rank in self.processes:
                _cap(self.paths.rank_log(rank))
            self._on_wait()

    def end(self) -> None:
        """End what still runs, with a dump of its stacks where it hangs."""
        alive = {rank: process for rank, process in self.processes.items() if process.is_alive()}
        self._ended_here = set(alive)
        # What a rank says and does once it is being ended is not the cause of anything.
        self._said_before = {rank: _read_document(self.paths, rank) for rank in alive}
        self._beat_before = {rank: read_beat(self.paths.heartbeat(rank)) for rank in alive}
        if self.stopped is not None and self.stopped.outcome == "hang":
            stopped = [rank for rank, process in alive.items() if process.pid and is_stopped(process.pid)]
            if stopped:
                reason = f"rank {stopped[0]} was stopped from outside (SIGSTOP): {self.stopped.reason}"
                self.stopped = Stopped("hang", reason, stopped[0])
            dump_stacks(alive)
        end_ranks(self.processes, lambda: self._interrupts.hurry)

    def result(self, ranks: Sequence[int], seconds: float) -> LaunchEnd:
        """State how it ended, and let go of the processes."""
        ends = []
        pids = tuple(process.pid for process in self.processes.values() if process.pid is not None)
        for rank in ranks:
            process = self.processes.get(rank)
            code = None if process is None else process.exitcode
            if process is not None and code is not None:
                process.close()
            ended_here = rank in self._ended_here
            ends.append(
                RankEnd(
                    rank,
                    code,
                    self._said_before[rank] if ended_here else _read_document(self.paths, rank),
                    self._beat_before[rank] if ended_here else read_beat(self.paths.heartbeat(rank)),
                    _last_line(self.paths.rank_log(rank)),
                    ended_here,
                    _read_stacks(self.paths, rank),
                )
            )
        return LaunchEnd(tuple(ends), self.stopped, seconds, tuple(self.flags), pids)

    def _ended_badly(self, rank: int) -> bool:
        """Tell whether an ended rank failed, or left without a result: its peers wait for it in vain."""
        return self.processes[rank].exitcode != 0 or not self.paths.rank_file(rank).exists()

    def _beats(self, ranks: Mapping[int, BaseProcess]) -> dict[int, Beat | None]:
        return {rank: read_beat(self.paths.heartbeat(rank)) for rank in ranks}

    def _interrupted(self) -> Stopped | None:
        number = self._interrupts.number
        return None if number is None else Stopped("interrupted", "the sweep was interrupted")

    def _suspend(self) -> None:
        """Stop the ranks, then this process; go on with both when the terminal says so."""
        for process in self.processes.values():
            signal_group(process, signal.SIGSTOP)
        self._interrupts.suspend()
        for process in self.processes.values():
            signal_group(process, signal.SIGCONT)
        self._flag("suspended")

    def _flag(self, name: str) -> None:
        if name not in self.flags:
            self.flags.append(name)


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


def _set_aside(paths: LaunchPaths, ranks: Sequence[int]) -> None:
    """Take away what a first try left, so that nothing of it is read as the second's."""
    for rank in ranks:
        paths.heartbeat(rank).unlink(missing_ok=True)
        paths.rank_file(rank).unlink(missing_ok=True)
    paths.rendezvous.unlink(missing_ok=True)


def _read_document(paths: LaunchPaths, rank: int) -> dict[str, Any] | None:
    """Read a rank's answer; None when it gave none. The file is whole or absent, by rename."""
    try:
        document = json.loads(paths.rank_file(rank).read_text())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and "outcome" in document else None


def _read_stacks(paths: LaunchPaths, rank: int) -> str | None:
    """Read where the threads of a rank were; None when nobody asked."""
    try:
        text = paths.rank_stacks(rank).read_text(errors="replace").strip()
    except OSError:
        return None
    return text[:4096] or None


def _last_line(log: Path) -> str | None:
    """Read the last line a rank printed, without reading a large log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return None
    return lines[-1].strip()[:300] if lines else None


def _cap(log: Path) -> None:
    """Cut a log that grows without bound back to half its cap; ranks append, so they go on at the new end."""
    try:
        if log.stat().st_size > _LOG_CAP_BYTES:
            os.truncate(log, _LOG_CAP_BYTES // 2)
    except OSError:
        return


@contextmanager
def _limits_named() -> Iterator[None]:
    """Turn a refusal to start a process into a fault that names the limit."""
    try:
        yield
    except (OSError, EOFError) as error:
        number = error.errno if isinstance(error, OSError) else None
        if number in (errno.EMFILE, errno.ENFILE):
            limit = f"{resource.getrlimit(resource.RLIMIT_NOFILE)[0]} open files (ulimit -n)"
        elif number in (errno.EAGAIN, errno.ENOMEM) or isinstance(error, EOFError | ConnectionError):
            limit = f"{resource.getrlimit(resource.RLIMIT_NPROC)[0]} processes (ulimit -u), or its memory"
        else:
            raise
        raise EnvironmentFault(f"No process can be started: this user's limit is {limit}. Raise it.") from error


@contextmanager
def _without_main_module() -> Iterator[None]:
    """Keep multiprocessing from running the caller's script again in each rank: ours need nothing of it."""
    main = sys.modules["__main__"]
    hidden = {name: getattr(main, name) for name in ("__spec__", "__file__") if hasattr(main, name)}
    main.__spec__ = None
    if "__file__" in hidden:
        del main.__file__
    try:
        yield
    finally:
        for name, value in hidden.items():
            setattr(main, name, value)
