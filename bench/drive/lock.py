"""One sweep writes a results folder at a time.

Two locks, since either may fail: flock, which the kernel frees however the holder dies, but which cluster file systems
may lack or keep to one node; and a lease, a file that only one process can create, which says who holds it. A lease is
stale when its holder is known to be dead, or when it is from another machine and was not renewed for long.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.errors import LockedError, StorageError
from bench.launch.process_table import ProcessId, identify, is_alive
from bench.record.atomic import words_of

_RENEW_S = 20.0
_STALE_S = 900.0
"""Age of the last renewal after which a lease of another machine is stale: a holder paused that long has lost it."""
_UNWRITTEN_S = 2.0
"""How long a lease may stay empty between its making and its writing."""
_NO_FLOCK = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


@dataclass(frozen=True)
class Lease:
    """State who holds a folder."""

    pid: int
    start_ticks: int | None
    boot_id: str | None
    host: str
    secret: str
    """Tells this holder from any other, also one of the same process."""


class FolderLock:
    """Hold a folder for writing; made by `hold`."""

    def __init__(self, lease_path: Path, lease: Lease) -> None:
        self._path = lease_path
        self._lease = lease
        self._renewed_s = time.monotonic()

    def check(self) -> None:
        """Make sure that the folder is still held, before something is written to it; renews the lease.

        Raises:
            LockedError: another sweep took it over, as after a long pause of this process.
            StorageError: the folder is gone.
        """
        if not self._path.parent.is_dir():
            raise StorageError(f"{self._path.parent} is gone: somebody deleted or moved it while this sweep ran.")
        if _read(self._path) != self._lease:
            raise LockedError(f"{self._path.parent} was taken over by another sweep while this one was paused.")
        self.renew()

    def renew(self) -> None:
        """Show that the holder lives, as often as needed; called while a launch is waited for, which may take long."""
        if time.monotonic() - self._renewed_s > _RENEW_S:
            self._renewed_s = time.monotonic()
            with contextlib.suppress(OSError):
                os.utime(self._path)


@contextmanager
def hold(path: Path) -> Iterator[FolderLock]:
    """Hold the folder of this lock file.

    Raises:
        LockedError: another sweep holds it; names the holder.
        StorageError: the folder cannot be written.
    """
    lease_path = path.with_name(f"{path.name}.lease")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _not_writable(path, error) from error
    try:
        _flock(descriptor, path, lease_path)
        lease = _new_lease()
        _take(lease_path, lease)
        try:
            yield FolderLock(lease_path, lease)
        finally:
            if _read(lease_path) == lease:
                with contextlib.suppress(OSError):
                    lease_path.unlink()
    finally:
        os.close(descriptor)


def _flock(descriptor: int, path: Path, lease_path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _locked(path, _read(lease_path)) from None
    except OSError as error:
        if error.errno not in _NO_FLOCK:
            raise _not_writable(path, error) from error
        # This file system has no flock: the lease alone decides.


def _take(path: Path, lease: Lease) -> None:
    """Create the lease, in the place of a stale one at most."""
    for _ in range(3):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            _remove_stale(path)
            continue
        except OSError as error:
            raise _not_writable(path, error) from error
        try:
            os.write(descriptor, json.dumps(asdict(lease)).encode())
        except OSError as error:
            path.unlink(missing_ok=True)
            raise _not_writable(path, error) from error
        finally:
            os.close(descriptor)
        return
    raise _locked(path, _read(path))


def _remove_stale(path: Path) -> None:
    """Remove a lease whose holder is gone.

    Raises:
        LockedError: its holder may still be there.
    """
    try:
        # Without content it was just created and will be written at once, or its maker was killed in that moment.
        while (found := _read(path)) is None and _age_s(path) < _UNWRITTEN_S:
            time.sleep(0.1)
        age_s = _age_s(path)
    except OSError:
        return  # gone meanwhile
    if found is not None and _may_live(found, age_s):
        raise _locked(path, found)
    # By rename, which only one of several can do; whoever took the wrong one finds out before its first write.
    aside = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}")
    with contextlib.suppress(OSError):
        path.rename(aside)
        aside.unlink()


def _may_live(lease: Lease, age_s: float) -> bool:
    if lease.host != socket.gethostname():
        return age_s < _STALE_S
    return is_alive(ProcessId(lease.pid, lease.start_ticks, lease.boot_id))


def _age_s(path: Path) -> float:
    """Give the time since the last renewal of a lease [s]."""
    return _now_of(path) - path.stat().st_mtime


def _now_of(path: Path) -> float:
    """Read the clock of the file system itself, which may be another machine's."""
    probe = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.now")
    try:
        probe.touch()
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _new_lease() -> Lease:
    me = identify(os.getpid())
    return Lease(me.pid, me.start_ticks, me.boot_id, socket.gethostname(), uuid.uuid4().hex)


def _read(path: Path) -> Lease | None:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
        return Lease(**content)
    except (OSError, ValueError, TypeError):
        return None


def _locked(path: Path, holder: Lease | None) -> LockedError:
    who = "unknown" if holder is None else f"process {holder.pid} on {holder.host}"
    return LockedError(f"another sweep is writing {path.parent} ({who}). Wait for it, or use --out.")


def _not_writable(path: Path, error: OSError) -> StorageError:
    words = words_of(error, path.parent)
    return StorageError(f"{path.parent} cannot be written: {words}. Choose another folder with --out.")
