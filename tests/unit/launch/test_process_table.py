"""Who a process is, and whose."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from dataclasses import replace

from bench.launch.process_table import (
    TOKEN_VARIABLE,
    descendants,
    identify,
    is_alive,
    is_dead,
    is_stopped,
    kill_tree,
    kill_with_token,
    thread_count,
    with_token,
)
from tests.patience import PATIENCE_S, wait_until

SLEEP = [sys.executable, "-c", "import time; time.sleep(3600)"]


def test_process_is_named_for_good() -> None:
    """By its start and its boot: neither a number given again nor a reboot is taken for it."""
    me = identify(os.getpid())
    assert is_alive(me)
    assert not is_alive(replace(me, start_ticks=(me.start_ticks or 0) + 1))
    assert not is_alive(replace(me, boot_id="another"))


def test_dead_process_is_not_alive_while_nobody_has_reaped_it() -> None:
    """A zombie holds nothing."""
    child = subprocess.Popen(SLEEP)
    name = identify(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(name)
    child.wait()


def test_only_processes_with_the_token_are_killed() -> None:
    """Ours, wherever they are; not their likes, and not those that are spared."""
    token = uuid.uuid4().hex  # these tests may run twice at once
    ours, spared = (subprocess.Popen(SLEEP, env=os.environ | {TOKEN_VARIABLE: token}) for _ in range(2))
    other = subprocess.Popen(SLEEP, env=os.environ | {TOKEN_VARIABLE: f"{token}b"})
    children = (ours, spared, other)
    try:
        assert {ours.pid, spared.pid, other.pid} <= set(descendants(os.getpid()))
        assert sorted(with_token(token)) == sorted([ours.pid, spared.pid])
        assert kill_with_token(token, spared=[spared.pid]) == [ours.pid]
        assert ours.wait(timeout=PATIENCE_S) == -signal.SIGKILL
        assert (spared.poll(), other.poll()) == (None, None)
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_process_is_killed_with_all_below_it_although_they_are_stopped() -> None:
    """What was forked a moment ago is not yet tied to its parent's life, and a stopped one never will be."""
    code = f"import subprocess, time; subprocess.Popen({SLEEP!r}); time.sleep(3600)"
    parent = subprocess.Popen([sys.executable, "-c", code])
    other = subprocess.Popen(SLEEP)
    try:
        (child,) = wait_until(lambda: descendants(parent.pid) or None, "it has a child")
        os.kill(child, signal.SIGSTOP)
        kill_tree(parent.pid)
        assert parent.wait(timeout=PATIENCE_S) == -signal.SIGKILL
        assert is_dead(child)
        assert other.poll() is None
    finally:
        for process in (parent, other):
            process.kill()
            process.wait()


def test_stopped_process_is_told_from_a_running_one() -> None:
    """By the kernel's own word."""
    child = subprocess.Popen(SLEEP)
    try:
        assert not is_stopped(child.pid)
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        assert is_stopped(child.pid)
    finally:
        child.kill()
        child.wait()


def test_threads_of_another_process_are_counted() -> None:
    """None for one that is gone."""
    assert (thread_count(os.getpid()) or 0) >= 1
    assert thread_count(2**22 + 1) is None
