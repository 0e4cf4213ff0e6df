"""One sweep writes a results folder at a time."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.errors import LockedError, StorageError


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Hold the folder's lock; the kernel frees it when this process dies, however it dies.

    Raises:
        LockedError: another sweep holds it; names the holder.
        StorageError: the folder cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StorageError(
            f"{path.parent} cannot be written: {error.strerror}. Choose another folder with --out."
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 4096).decode(errors="replace").strip() or "unknown"
            raise LockedError(
                f"another sweep is writing {path.parent} ({holder}). Wait for it, or use --out."
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
        yield
    finally:
        os.close(descriptor)
