"""Warm fork servers of the standard library: one per distinct environment, since a server's is fixed at its start."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from typing import Any

from bench.launch.process import DRIVER_VARIABLE
from bench.launch.process_table import TOKEN_VARIABLE, is_dead, kill_tree

_DEATH_S = 5.0
"""Longest wait for the end of a server after SIGKILL [s]."""


class ServerPool:
    """Start servers when they are asked for, and again when one has died."""

    def __init__(self, token: str, preload: Sequence[str]) -> None:
        self._token = token
        self._preload = ["bench.launch.server_start", *preload]
        self._servers: dict[tuple[tuple[str, str], ...], Any] = {}
        self._answered: set[int] = set()
        # The kernel ends a server with its driver once it has asked for that, which one that stalls early has not.
        weakref.finalize(self, _end_all, self._servers, os.getpid())

    def start(self, environment: Mapping[str, str]) -> int:
        """Start the server of this environment unless it runs; its imports go on meanwhile. Return its process id."""
        # The kernel ties a child's life to the *thread* that started it.
        assert threading.current_thread() is threading.main_thread(), "servers start from the main thread"
        server = self._server(environment)
        resource_tracker.ensure_running()  # outside, so that it does not carry the token
        with self.variables(environment):
            server.ensure_running()
        return int(server._forkserver_pid)

    @contextmanager
    def connected(self, environment: Mapping[str, str]) -> Iterator[int]:
        """Let `multiprocessing` fork from the server of this environment; give the server's process id."""
        pid = self.start(environment)
        usual = forkserver.connect_to_new_process
        forkserver.connect_to_new_process = self._server(environment).connect_to_new_process
        try:
            yield pid
            self._answered.add(pid)
        finally:
            forkserver.connect_to_new_process = usual

    @contextmanager
    def variables(self, environment: Mapping[str, str]) -> Iterator[None]:
        """Put an environment, the token and our process id where a new process inherits them.

        It inherits too that SIGINT waits: before a rank has its log, a traceback would end in the user's terminal.
        """
        wanted = {**environment, TOKEN_VARIABLE: self._token, DRIVER_VARIABLE: str(os.getpid())}
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def kill(self, environment: Mapping[str, str]) -> None:
        """Kill the server of this environment, which is stalled; the next start makes another."""
        key = tuple(sorted(environment.items()))
        server = self._servers.get(key)
        # Left to be reaped by the standard library, which finds out by that.
        if server is not None and not _kill(server):
            del self._servers[key]  # not even SIGKILL ends it, as in a system call that hangs: never ask it again

    def has_answered(self, environment: Mapping[str, str]) -> bool:
        """Tell whether the last server of this environment has started a process."""
        return self._server(environment)._forkserver_pid in self._answered

    def pids(self) -> set[int]:
        """List the servers that were started."""
        return {server._forkserver_pid for server in self._servers.values() if server._forkserver_pid is not None}

    def _server(self, environment: Mapping[str, str]) -> Any:
        key = tuple(sorted(environment.items()))
        if key not in self._servers:
            server = forkserver.ForkServer()
            server.set_forkserver_preload(self._preload)
            self._servers[key] = server
        return self._servers[key]


def _kill(server: Any) -> bool:
    """Kill a server; tell whether it is dead, at once or after a moment."""
    pid: int | None = server._forkserver_pid
    if pid is None:
        return True
    kill_tree(pid)
    if not sys.platform.startswith("linux"):
        return True  # nothing tells without reaping it
    deadline_s = time.monotonic() + _DEATH_S
    while not is_dead(pid) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return is_dead(pid)


def _end_all(servers: dict[Any, Any], driver: int) -> None:
    """End the servers of a pool that is needed no more, or whose driver ends; not those of a forked driver's parent."""
    if os.getpid() != driver:
        return
    for server in servers.values():
        if _kill(server) and server._forkserver_pid is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(server._forkserver_pid, os.WNOHANG)
            os.close(server._forkserver_alive_fd)
    servers.clear()
