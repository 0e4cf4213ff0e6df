"""The driver's ladder: a rank is asked to end, then made to. Real processes, short times."""

from __future__ import annotations

import multiprocessing
import multiprocessing.synchronize
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess

import pytest

from bench.launch import kill_ladder
from tests.patience import PATIENCE_S


def deaf(ready: multiprocessing.synchronize.Event) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    ready.set()
    while True:
        time.sleep(1)


def polite(ready: multiprocessing.synchronize.Event) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        ready.set()
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        raise SystemExit(3) from None


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., BaseProcess]]:
    """Start a process that behaves so; what it is asked with has all the time that it may take."""
    monkeypatch.setattr(kill_ladder, "LADDER", tuple((number, PATIENCE_S) for number, _ in kill_ladder.LADDER))
    context = multiprocessing.get_context("spawn")
    started = []

    def begin(behave: Callable[..., None]) -> BaseProcess:
        ready = context.Event()
        process = context.Process(target=behave, args=(ready,))
        process.start()
        started.append(process)
        assert ready.wait(PATIENCE_S)
        return process

    yield begin
    for process in started:
        process.kill()
        process.join(PATIENCE_S)


@pytest.mark.slow
def test_process_deaf_to_all_but_sigkill_is_ended_and_reaped(
    start: Callable[..., BaseProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F9: the last rung cannot be ignored."""
    *asking, forcing = kill_ladder.LADDER
    monkeypatch.setattr(kill_ladder, "LADDER", (*((number, 0.3) for number, _ in asking), forcing))
    process = start(deaf)
    kill_ladder.end_ranks({0: process})
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.slow
def test_process_that_listens_ends_by_itself(start: Callable[..., BaseProcess]) -> None:
    """It is asked first, so that it can flush what it has."""
    process = start(polite)
    kill_ladder.end_ranks({0: process})
    assert process.exitcode == 3


@pytest.mark.slow
def test_in_a_hurry_nothing_is_asked(start: Callable[..., BaseProcess]) -> None:
    """Only SIGKILL is left."""
    process = start(polite)
    kill_ladder.end_ranks({0: process}, hurry=lambda: True)
    assert process.exitcode == -signal.SIGKILL
