"""Write a file so that a reader, or a power cut, finds the old one or the new one and nothing between."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from bench.errors import StorageError
from bench.record.fault_points import reach


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` by `content`: temporary file beside it, fsync, rename, fsync of the folder.

    Raises:
        StorageError: The system refused; names the path and the need. The file is then to be taken as not written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as stream:
            reach("file.write")
            stream.write(content)
            stream.flush()
            reach("file.fsync")
            os.fsync(stream.fileno())
        reach("file.rename")
        temporary.replace(path)
        reach("folder.fsync")
        sync_folder(path.parent)
        reach("file.durable")
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise storage_error(path, f"cannot be written ({len(content):,} bytes needed)", error) from error


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable: a rename is safe only once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bytes(path: Path) -> bytes:
    """Read a whole file; a missing or unreadable one is a StorageError that names it."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise storage_error(path, "cannot be read", error) from error


def storage_error(path: Path, what: str, error: OSError) -> StorageError:
    """Phrase a refusal of the operating system: where, what, the system's word for it."""
    return StorageError(f"{path}: {what}: {error.strerror or error}.")
