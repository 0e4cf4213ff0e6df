"""Wait for a fork server, but not for ever: one that does not answer is killed, and that ends the wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.errors import EnvironmentFault
from bench.launch.process_table import kill_tree
from bench.telemetry.time_limit import process_limit

_LOOK_S = 0.1


class ServerSilent(Exception):
    """The server did not answer while it was waited for, and was killed."""


@contextmanager
def answer_awaited(server_pid: int, is_enough: Callable[[], bool]) -> Iterator[None]:
    """Let the caller ask a fork server inside; it is killed once `is_enough` says so, several times a second asked.

    The wait itself is the standard library's, which has no limit and goes on after a signal; when the server and what
    it had just forked are dead, their end of the connection closes, and the wait is over. So a thread looks on. It
    starts no process: the kernel ties the life of a child to the thread that started it.

    Args:
        server_pid: A child of this process that nobody reaps meanwhile.
        is_enough: Whether to wait no longer; called in that thread.

    Raises:
        ServerSilent: It was killed.
        EnvironmentFault: The machine has no thread left; names the limit.
    """
    is_over = threading.Event()
    is_killed = threading.Event()

    def look_on() -> None:
        while not is_over.wait(_LOOK_S):
            if is_enough():
                is_killed.set()
                kill_tree(server_pid)
                return

    watcher = threading.Thread(target=look_on, name="server-wait", daemon=True)
    try:
        watcher.start()
    except RuntimeError as error:
        raise EnvironmentFault(f"No thread can be started: {process_limit()}") from error
    failure: Exception | None = None
    try:
        yield
    except (OSError, EOFError) as error:
        failure = error
    finally:
        is_over.set()
        watcher.join()
    if is_killed.is_set():
        raise ServerSilent from failure
    if failure is not None:
        raise failure
