"""Signals that end a command: in words, with what it started ended too, and with the exit code of the help."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.launch.interrupts import ENDING


class CommandEnded(BaseException):
    """A signal ended the command."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__()

    @property
    def exit_code(self) -> int:
        """Give 128 and the signal, as a shell does."""
        return 128 + self.number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise `CommandEnded` inside when a signal comes that ends a command; one that was ignored stays ignored.

    A sweep and a proof take these signals themselves while they run, since they must not be torn anywhere.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        if handler not in (signal.SIG_IGN, None):
            signal.signal(number, _end)
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler not in (signal.SIG_IGN, None):
                signal.signal(number, handler)


def _end(number: int, _frame: Any) -> None:
    raise CommandEnded(number)
