"""Ask a library that may hang: each question has a time limit. No torch."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from bench.errors import EnvironmentFault

ValueT = TypeVar("ValueT")


def process_limit() -> str:
    """Say how many processes and threads this user may have, for a message that one cannot be started."""
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    number = "any number of" if limit == resource.RLIM_INFINITY else f"{limit:,}"
    return (
        f"this user may have {number} processes and threads (ulimit -u); memory, or a container (pids.max), may allow "
        "fewer. Raise the limit, or end some."
    )


class NoAnswerError(Exception):
    """Report that a question was not answered in time; the thread that asks it may never come back."""

    def __init__(self, thread: LimitedThread) -> None:
        super().__init__()
        self.thread = thread
        """The one that still waits for the answer."""


class LimitedThread:
    """Run questions one after another in a thread of their own, and stop waiting for one that hangs.

    Python cannot end a call into a hung library. So its thread is left behind; it holds nothing of ours and does not
    keep the process from ending.
    """

    def __init__(self, name: str) -> None:
        """Start the thread.

        Raises:
            EnvironmentFault: The machine has no thread left; names the limit.
        """
        self._questions: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._is_left_behind = False
        try:
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        except RuntimeError as error:
            raise EnvironmentFault(f"No thread can be started: {process_limit()}") from error

    def ask(self, question: Callable[[], ValueT], limit_s: float) -> ValueT:
        """Give the answer to a question, or raise what it raised.

        Raises:
            NoAnswerError: It took longer than `limit_s` [s], or an earlier one that did is still under way.
        """
        if self.hangs:
            raise NoAnswerError(self)
        if self._is_left_behind:
            self._answers.get()  # that of the earlier question: nobody waits for it any more
            self._is_left_behind = False
        self._questions.put(question)
        try:
            answer, error = self._answers.get(timeout=limit_s)
        except Empty:
            self._is_left_behind = True
            raise NoAnswerError(self) from None
        if error is not None:
            raise error
        value: ValueT = answer
        return value

    @property
    def hangs(self) -> bool:
        """Tell whether a question that nobody waits for any more is still under way."""
        return self._is_left_behind and self._answers.empty()

    def close(self) -> None:
        """Let the thread end, once it comes back."""
        self._questions.put(None)

    def _serve(self) -> None:
        while (question := self._questions.get()) is not None:
            try:
                self._answers.put((question(), None))
            except BaseException as error:  # whatever it is, it belongs to the one who asked
                self._answers.put((None, error))
