"""Read what the ranks of a launch leave in its folder; remove it before a second try."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.record.paths import LaunchPaths
from bench.units import cut_text

_LOG_CAP_BYTES = 64 * 1024**2


def set_aside(paths: LaunchPaths, ranks: Sequence[int]) -> None:
    """Remove what a first try left, so that none of it is read as the second's."""
    for rank in ranks:
        paths.heartbeat(rank).unlink(missing_ok=True)
        paths.rank_file(rank).unlink(missing_ok=True)


def read_document(paths: LaunchPaths, rank: int) -> dict[str, Any] | None:
    """Read a rank's answer; None when it gave none. The file is whole or absent, by rename."""
    try:
        document = json.loads(paths.rank_file(rank).read_text())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and "outcome" in document else None


def read_stacks(paths: LaunchPaths, rank: int) -> str | None:
    """Read where the threads of a rank were; None when nobody asked."""
    try:
        text = paths.rank_stacks(rank).read_text(errors="replace").strip()
    except OSError:
        return None
    return text[:4096] or None


def last_line(log: Path) -> str | None:
    """Read the last line a rank printed, without reading a large log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return None
    return cut_text(lines[-1].strip(), 300) if lines else None


def cap_log(log: Path) -> None:
    """Cut a log that exceeds its cap back to half of it; ranks append, so they continue at the new end."""
    try:
        if log.stat().st_size > _LOG_CAP_BYTES:
            os.truncate(log, _LOG_CAP_BYTES // 2)
    except OSError:
        return
