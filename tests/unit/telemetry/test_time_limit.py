"""A question has a time limit; the thread that hangs is left behind."""

from __future__ import annotations

import threading

import pytest

from bench.telemetry.time_limit import LimitedThread, NoAnswerError
from tests.patience import PATIENCE_S, wait_until


def test_answers_come_in_order_and_errors_are_the_askers() -> None:
    """What a question raises is raised where it was asked, and the thread goes on."""
    thread = LimitedThread("test")
    assert thread.ask(lambda: 1, PATIENCE_S) == 1
    with pytest.raises(ZeroDivisionError):
        thread.ask(lambda: 1 // 0, PATIENCE_S)
    assert thread.ask(lambda: 2, PATIENCE_S) == 2
    thread.close()


def test_question_that_hangs_is_given_up() -> None:
    """The caller goes on at once after the limit, whatever the thread does."""
    release = threading.Event()
    with pytest.raises(NoAnswerError):
        LimitedThread("test").ask(release.wait, 0.01)
    release.set()


def test_thread_that_hangs_is_asked_nothing_until_it_comes_back() -> None:
    """Then it answers what it is asked, not what it was asked before."""
    release, thread = threading.Event(), LimitedThread("test")
    with pytest.raises(NoAnswerError) as raised:
        thread.ask(release.wait, 0.01)
    assert raised.value.thread is thread
    assert thread.hangs
    with pytest.raises(NoAnswerError):
        thread.ask(lambda: 2, PATIENCE_S)
    release.set()
    wait_until(lambda: not thread.hangs, "the thread comes back")
    assert thread.ask(lambda: 3, PATIENCE_S) == 3
    thread.close()
