"""Signals are noted, and nothing is raised by one."""

from __future__ import annotations

import os
import signal

from bench.launch.interrupts import Interrupts


def test_first_signal_is_noted_and_the_second_is_hurry() -> None:
    """The exit code is that of the first."""
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        assert (interrupts.number, interrupts.hurry) == (signal.SIGTERM, False)
        os.kill(os.getpid(), signal.SIGINT)
        assert (interrupts.number, interrupts.hurry) == (signal.SIGTERM, True)


def test_former_handlers_are_put_back() -> None:
    """A library must not keep a program's signals."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)]
    with Interrupts():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    after = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)]
    assert after == before


def test_signal_that_was_ignored_from_the_start_stays_ignored() -> None:
    """nohup means it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGHUP)
            assert interrupts.number is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_suspension_is_asked_for_and_not_yet_followed() -> None:
    """The ranks are to be stopped first."""
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTSTP)
        assert interrupts.suspend_asked
