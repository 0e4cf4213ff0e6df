"""Warm fork servers of the standard library: one per distinct environment, since a server's is fixed at its start."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from typing import Any

from bench.launch.process import DRIVER_VARIABLE
from bench.launch.process_table import TOKEN_VARIABLE, is_dead

_DEATH_S = 5.0
"""Longest wait for the end of a server after SIGKILL [s]."""


class ServerPool:
    """Start servers when they are asked for, and again when one has died."""

    def __init__(self, token: str, preload: Sequence[str]) -> None:
        self._token = token
        self._preload = ["bench.launch.server_start", *preload]
        self._servers: dict[tuple[tuple[str, str], ...], Any] = {}
        self._answered: set[int] = set()

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
        """Put an environment, the token and our process id where a new process inherits them."""
        wanted = {**environment, TOKEN_VARIABLE: self._token, DRIVER_VARIABLE: str(os.getpid())}
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def kill(self, environment: Mapping[str, str]) -> None:
        """Kill the server of this environment, which is stalled; the next start makes another."""
        key = tuple(sorted(environment.items()))
        server = self._servers.get(key)
        pid = None if server is None else server._forkserver_pid
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        deadline_s = time.monotonic() + _DEATH_S
        # Left to be reaped by the standard library, which finds out by that.
        while not is_dead(pid):
            if time.monotonic() > deadline_s:
                del self._servers[key]  # not even SIGKILL ends it, as in a system call that hangs: never ask it again
                return
            time.sleep(0.01)

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
