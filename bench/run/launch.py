"""Launch the ranks of one trial in fresh processes and wait for them, with a limit on every wait. No torch here."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

from bench.run import rank_process
from bench.run.heartbeat import read_beat
from bench.run.outcome import RankEnd
from bench.run.paths import LaunchPaths

StartMethod = Literal["forkserver", "spawn"]

_POLL_S = 0.2
_TERM_GRACE_S = 5.0
_KILL_GRACE_S = 5.0
_PEER_GRACE_S = 5.0
"""After one rank ended badly, how long the others may take to end by themselves."""
_LOG_CAP_BYTES = 64 * 1024**2


@dataclass(frozen=True)
class LaunchLimits:
    """Bound a launch on the monotonic clock."""

    start_s: float
    """To the end of the first update [s]."""
    total_s: float
    """To the exit of the last rank [s]."""


@dataclass(frozen=True)
class LaunchEnd:
    """State how the processes of a launch ended."""

    ranks: tuple[RankEnd, ...]
    stopped: str | None
    """Why the driver stopped it: timeout or start_timeout; None if it ended by itself."""
    interrupt: BaseException | None
    """What a signal handler raised meanwhile; for the caller to raise again once the launch is recorded."""
    seconds: float
    """From the request to the reaped exit of the last process [s]."""


class Launcher:
    """Start ranks from a warm server of the standard library; one server serves a whole sweep."""

    def __init__(self, start_method: StartMethod = "forkserver") -> None:
        self._context: Any = multiprocessing.get_context(start_method)
        self._start_method = start_method
        if start_method == "forkserver":
            self._context.set_forkserver_preload(["bench.run.preload"])

    def warm_up(self) -> None:
        """Start the server now; its imports go on while the caller does something else."""
        if self._start_method == "forkserver":
            forkserver.ensure_running()

    def run(
        self,
        paths: LaunchPaths,
        ranks: Sequence[int],
        limits: LaunchLimits,
        on_wait: Callable[[], None] = lambda: None,
    ) -> LaunchEnd:
        """Run these ranks to their end, whatever it is; `on_wait` is called a few times a second.

        Whatever a signal handler raises ends the ranks, and comes back in the result as `interrupt`.
        """
        start = time.monotonic()
        processes: dict[int, BaseProcess] = {}
        stopped: str | None = None
        interrupt: BaseException | None = None
        try:
            for rank in ranks:
                processes[rank] = self._start(paths, rank)
            stopped = self._wait(processes, paths, start, limits, on_wait)
        except BaseException as error:
            interrupt = error
        ended_here = {rank for rank, process in processes.items() if process.is_alive()}
        _end(list(processes.values()))
        if isinstance(interrupt, Exception):
            raise interrupt
        codes = {rank: process.exitcode for rank, process in processes.items()}
        codes = {rank: codes.get(rank) for rank in ranks}
        for process in processes.values():
            if process.exitcode is not None:
                process.close()
        ends = tuple(
            RankEnd(
                rank,
                codes[rank],
                _read_document(paths, rank),
                read_beat(paths.heartbeat(rank)),
                _last_line(paths.rank_log(rank)),
                rank in ended_here,
            )
            for rank in ranks
        )
        return LaunchEnd(ends, stopped, interrupt, time.monotonic() - start)

    def _start(self, paths: LaunchPaths, rank: int) -> BaseProcess:
        process: BaseProcess = self._context.Process(
            target=rank_process.run, args=(str(paths.folder), rank), name=f"rank-{rank}", daemon=True
        )
        with _without_main_module():
            process.start()
        return process

    def _wait(
        self,
        processes: dict[int, BaseProcess],
        paths: LaunchPaths,
        start: float,
        limits: LaunchLimits,
        on_wait: Callable[[], None],
    ) -> str | None:
        """Wait until all ranks ended, one ended badly and the others had their grace, or a limit passed."""
        started = False
        bad_since: float | None = None
        while True:
            alive = {rank: process for rank, process in processes.items() if process.exitcode is None}
            if not alive:
                return None
            now = time.monotonic()
            if len(alive) < len(processes) and any(process.exitcode for process in processes.values()):
                bad_since = now if bad_since is None else bad_since
                if now - bad_since > _PEER_GRACE_S:
                    return None
            if now - start > limits.total_s:
                return "timeout"
            beats = [read_beat(paths.heartbeat(rank)) for rank in processes] if not started else []
            started = started or all(beat is not None and beat.update >= 1 for beat in beats)
            if not started and now - start > limits.start_s:
                return "start_timeout"
            wait([process.sentinel for process in alive.values()], timeout=_POLL_S)
            for rank in processes:
                _cap(paths, rank)
            on_wait()


def _end(processes: Sequence[BaseProcess]) -> None:
    """End what still runs: SIGTERM, then SIGKILL, each with its grace; reap every process."""
    alive = [process for process in processes if process.is_alive()]
    for stop, grace_s in ((BaseProcess.terminate, _TERM_GRACE_S), (BaseProcess.kill, _KILL_GRACE_S)):
        for process in alive:
            stop(process)
        deadline = time.monotonic() + grace_s
        for process in alive:
            process.join(max(0.0, deadline - time.monotonic()))
        alive = [process for process in alive if process.is_alive()]


def _read_document(paths: LaunchPaths, rank: int) -> dict[str, Any] | None:
    """Read a rank's answer; None when it gave none. The file is whole or absent, by rename."""
    try:
        document: dict[str, Any] = json.loads(paths.rank_file(rank).read_text())
    except (OSError, ValueError):
        return None
    return document


def _last_line(log: Path) -> str | None:
    """Read the last line a rank printed, without reading a large log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return None
    return lines[-1].strip()[:300] if lines else None


def _cap(paths: LaunchPaths, rank: int) -> None:
    """Cut a log that grows without bound back to half its cap; ranks append, so they go on at the new end."""
    log = paths.rank_log(rank)
    try:
        if log.stat().st_size > _LOG_CAP_BYTES:
            os.truncate(log, _LOG_CAP_BYTES // 2)
    except OSError:
        return


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
