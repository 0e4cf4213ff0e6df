"""One sweep at a time, with flock and without."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from bench.drive import lock
from bench.drive.lock import hold
from bench.errors import LockedError
from bench.launch.process_table import identify
from tests.patience import PATIENCE_S

LEASE = ".lock.lease"


@pytest.fixture(params=["flock", "lease alone"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a lock file, on a file system with flock and on one without."""
    if request.param == "lease alone":

        def missing(*_: Any) -> None:
            raise OSError(errno.ENOLCK, "no locks available")

        monkeypatch.setattr(fcntl, "flock", missing)
    return tmp_path / ".lock"


def lease(path: Path, **changes: Any) -> None:
    """Leave a lease behind."""
    me = identify(os.getpid())
    holder = {
        "pid": me.pid,
        "start_ticks": me.start_ticks,
        "boot_id": me.boot_id,
        "host": os.uname().nodename,
        "secret": "other",
    }
    (path.parent / LEASE).write_text(json.dumps(holder | changes))


def test_second_holder_is_refused_by_name_and_the_first_is_not_harmed(path: Path) -> None:
    """Held until the end of the block, and free after it."""
    with hold(path) as first:
        with pytest.raises(LockedError, match=f"process {os.getpid()}"), hold(path):
            pass
        first.check()
    with hold(path):
        pass
    assert not (path.parent / LEASE).exists()


@pytest.mark.parametrize("stale", [{"pid": 2**22 + 1}, {"start_ticks": 1}, {"boot_id": "another boot"}])
def test_lease_of_the_dead_is_taken_over(path: Path, stale: dict[str, Any]) -> None:
    """No such process; its number given to another; from before a reboot."""
    lease(path, **stale)
    with hold(path) as lock:
        lock.check()


def test_lease_of_another_machine_holds_until_it_was_not_renewed_for_long(path: Path) -> None:
    """Nobody here can tell whether its holder lives."""
    lease(path, host="elsewhere", pid=1)
    with pytest.raises(LockedError, match="process 1 on elsewhere"), hold(path):
        pass
    os.utime(path.parent / LEASE, (1, 1))
    with hold(path):
        pass


def test_holder_that_waits_for_a_long_launch_keeps_its_lease(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written meanwhile, and another machine sees only the age of the lease."""
    monkeypatch.setattr("bench.drive.lock._RENEW_S", PATIENCE_S)
    with hold(path) as lock:
        os.utime(path.parent / LEASE, (1, 1))
        lock.renew()
        assert (path.parent / LEASE).stat().st_mtime == 1, "not more often than needed"
        later = time.monotonic() + 2 * PATIENCE_S
        monkeypatch.setattr(time, "monotonic", lambda: later)
        lock.renew()
        assert (path.parent / LEASE).stat().st_mtime > 1


def test_holder_that_was_taken_over_writes_no_more(path: Path) -> None:
    """After a pause so long that another took its place."""
    with hold(path) as lock:
        lease(path, secret="another's")
        with pytest.raises(LockedError, match="taken over"):
            lock.check()
    assert (path.parent / LEASE).exists(), "the other's lease stays"


def test_kernel_s_lock_holds_although_the_lease_was_deleted(tmp_path: Path) -> None:
    """Somebody tidied up: the first holder finds out, and nobody else gets in meanwhile."""
    with hold(tmp_path / ".lock") as lock:
        (tmp_path / LEASE).unlink()
        with pytest.raises(LockedError), hold(tmp_path / ".lock"):
            pass
        with pytest.raises(LockedError):
            lock.check()


def test_lease_of_a_process_that_died_before_it_wrote_its_name_is_taken_over(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F25: killed between making the lease and writing it; the next sweep waits a moment instead of refusing."""
    monkeypatch.setattr(lock, "_UNWRITTEN_S", 0.3)
    (path.parent / LEASE).touch()
    with hold(path):
        assert json.loads((path.parent / LEASE).read_text())["pid"] == os.getpid()


def test_lease_that_is_written_while_it_is_looked_at_holds(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty lease may be that of a sweep which begins just now."""
    monkeypatch.setattr(lock, "_UNWRITTEN_S", PATIENCE_S)
    (path.parent / LEASE).touch()
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: lease(path))
    with pytest.raises(LockedError, match=f"process {os.getpid()} on"), hold(path):
        pass
