"""Write a file so that a reader, or a power cut, finds the old one or the new one and nothing between."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from pathlib import Path

from bench.errors import StorageError
from bench.record.fault_points import reach


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` by `content`: temporary file beside it, fsync, rename, fsync of the folder.

    Raises:
        StorageError: The system refused; names the path and the need. The file is then to be taken as not written.
    """
    write_together({path: content})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Replace files of one folder, each as `write_atomically` does, with one wait for the disk less than one by one.

    All are durable on return, and not before: after a power cut some may be there and others not.

    Raises:
        StorageError: The system refused; names the path and the need. All are then to be taken as not written.
    """
    temporary = {path: path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in contents}
    (folder,) = {path.parent for path in contents}
    path = next(iter(contents))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in contents.items():
            with temporary[path].open("wb") as stream:
                reach("file.write")
                stream.write(content)
                stream.flush()
                reach("file.fsync")
                os.fsync(stream.fileno())
        for path in contents:
            reach("file.rename")
            temporary[path].replace(path)
        reach("folder.fsync")
        sync_folder(folder)
        reach("file.durable")
    except OSError as error:
        # Phrased before the written bytes are freed, while it still shows what ran out.
        refusal = storage_error(path, f"cannot be written ({len(contents[path]):,} bytes needed)", error)
        for left in temporary.values():
            with contextlib.suppress(OSError):
                left.unlink()
        raise refusal from error


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
    return StorageError(f"{path}: {what}: {words_of(error, path)}.")


def words_of(error: OSError, path: Path) -> str:
    """Give the system's word for a refusal; a disk with room but no inode left is not called full."""
    words = str(error.strerror or error)
    if error.errno == errno.ENOSPC:
        with contextlib.suppress(OSError):
            disk = os.statvfs(next(folder for folder in (path, *path.parents) if folder.exists()))
            if disk.f_files > 0 and disk.f_favail == 0:
                words += f" (all {disk.f_files:,} inodes are used, see df -i: delete some files)"
    return words
