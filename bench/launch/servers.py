"""Warm fork servers of the standard library: one per distinct environment, since a server's is fixed at its start."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from typing import Any

from bench.launch.process_table import TOKEN_VARIABLE

DRIVER_VARIABLE = "BENCH_DRIVER_PID"
"""Environment variable by which a server knows the process it must not outlive."""


class ServerPool:
    """Start servers when they are asked for, and again when one has died."""

    def __init__(self, token: str, preload: Sequence[str]) -> None:
        self._token = token
        self._preload = ["bench.launch.server_start", *preload]
        self._servers: dict[tuple[tuple[str, str], ...], Any] = {}

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
