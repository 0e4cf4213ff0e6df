"""Named points in what the driver does, at which the tests kill it or make the system refuse.

Every write, fsync and rename of results has one before and one after it; a test requires that all are reached. A point
costs one comparison when nothing is planned.
"""

from __future__ import annotations

from collections.abc import Callable

POINTS = (
    "journal.write",
    "journal.fsync",
    "journal.durable",
    "file.write",
    "file.fsync",
    "file.rename",
    "folder.fsync",
    "file.durable",
    "launch.spawn",
    "launch.spawned",
    "launch.ended",
    "launch.recorded",
)
"""Every point: the name says what comes next, or what is just done."""

_hook: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Tell the hook, if there is one, that this point is reached; it may raise OSError or end the process."""
    if _hook is not None:
        _hook(point)


def install(hook: Callable[[str], None] | None) -> None:
    """Set or remove the hook; for the tests."""
    global _hook
    _hook = hook
