"""Signals from outside, noted and acted on at safe points: a row is never torn by one."""

from __future__ import annotations

import os
import signal
from types import TracebackType
from typing import Any, Self

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a command to end."""


class Interrupts:
    """Note Ctrl-C, SIGTERM, SIGHUP and Ctrl-Z while in a `with` statement; nothing is raised by a signal."""

    def __init__(self) -> None:
        self.number: int | None = None
        """The first signal that asked for the end; None before."""
        self.hurry = False
        """Whether a second one came: then nothing waits any longer."""
        self.suspend_asked = False
        """Whether Ctrl-Z came and was not followed yet."""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Begin to note signals. One that was ignored from the start, as under nohup, stays ignored."""
        for number, handler in (*((ending, self._end) for ending in ENDING), (signal.SIGTSTP, self._suspend)):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put the former handlers back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def suspend(self) -> None:
        """Stop this process as the terminal asked; returns when it is continued."""
        self.suspend_asked = False
        os.kill(os.getpid(), signal.SIGSTOP)

    def _end(self, number: int, _frame: Any) -> None:
        if self.number is not None:
            self.hurry = True
        else:
            self.number = number

    def _suspend(self, _number: int, _frame: Any) -> None:
        self.suspend_asked = True
