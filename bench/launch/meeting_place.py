"""Where the ranks of one launch find each other on this node: a file in a folder of its own, gone with its launch.

Torch's file store locks its file by flock, which file systems of clusters may refuse. So the file lies where locks
work, never in the results folder; that holds its name alone.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.errors import EnvironmentFault, StorageError
from bench.record.atomic import words_of
from bench.record.paths import LaunchPaths

_PREFIX = "accumbench-ranks-"


@contextmanager
def meeting_place(paths: LaunchPaths, world_size: int) -> Iterator[None]:
    """Make the place for one launch, write its name into `paths.rendezvous`, and remove it when the ranks have ended.

    One rank meets nobody and gets none. The folder is this user's alone. A driver that is killed leaves it behind for
    `remove_leftovers` of the next.

    Args:
        paths: files of the launch.
        world_size: ranks of the launch.

    Raises:
        EnvironmentFault: In no folder for temporary files can a file be locked.
        StorageError: The name cannot be written.
    """
    if world_size == 1:
        yield
        return
    folder, held = _make()
    try:
        try:
            paths.rendezvous.write_bytes(os.fsencode(folder / "store"))
        except OSError as error:
            raise StorageError(f"{paths.rendezvous} cannot be written: {words_of(error, paths.folder)}.") from error
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def remove_leftovers() -> None:
    """Remove the places that drivers of this user left: those whose lock the kernel freed with its holder."""
    for parent in _parents():
        for folder in parent.glob(f"{_PREFIX}*"):
            with suppress(OSError):  # a driver holds it, or it is another user's, or is gone
                held = _hold(folder)
                if os.fstat(held).st_uid == os.getuid():
                    shutil.rmtree(folder, ignore_errors=True)
                os.close(held)


def _parents() -> list[Path]:
    """List the folders for temporary files, the user's own choice (TMPDIR) first: that too may be a cluster's."""
    return [Path(name) for name in dict.fromkeys((tempfile.gettempdir(), "/dev/shm", "/tmp", "/var/tmp"))]  # noqa: S108


def _make() -> tuple[Path, int]:
    """Make a folder where locks work; give it with the descriptor that holds its lock, which no rank inherits."""
    refusals = []
    for parent in _parents():
        folder: Path | None = None
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            return folder, _hold(folder)
        except OSError as error:
            refusals.append(f"{parent}: {error.strerror}")
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
    raise EnvironmentFault(
        "Ranks of one node meet at a file that is locked (flock), and no folder for temporary files allows it "
        f"({'; '.join(refusals)}). Set TMPDIR to a folder on a disk of this node."
    )


def _hold(folder: Path) -> int:
    """Lock a folder and give the descriptor; an OSError where that is refused, or somebody else holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), folder.stat()):  # removed since, as a leftover
            raise BlockingIOError
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
