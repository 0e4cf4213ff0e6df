"""What a check found, as a line for people and as JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

Status = Literal["PASS", "FAIL", "SKIP"]


@dataclass(frozen=True)
class Finding:
    """State what one check found."""

    status: Status
    figure: str
    """The figure behind the status, or why there is none."""


@dataclass(frozen=True)
class Line:
    """State one check of a run."""

    check: str
    status: Status
    figure: str
    seconds: float


def judge(is_good: bool, figure: str) -> Finding:
    """Turn a condition and the figure behind it into a finding."""
    return Finding("PASS" if is_good else "FAIL", figure)


def write_report(path: Path, lines: Sequence[Line], machine: dict[str, Any]) -> None:
    """Write every check with its figure, and the machine it ran on."""
    document = {
        "format": 1,
        "written_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "hostname": platform.node(),
        "machine": machine,
        "checks": [asdict(line) for line in lines],
    }
    path.write_text(json.dumps(document, indent=1))


def table(lines: Sequence[Line]) -> str:
    """Write the checks as text: status, seconds, check, figure."""
    width = max(len(line.check) for line in lines)
    rows = [f"{line.status}  {line.seconds:6.1f} s  {line.check:<{width}}  {line.figure}" for line in lines]
    counts = {status: sum(line.status == status for line in lines) for status in ("PASS", "FAIL", "SKIP")}
    summary = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    return "\n".join([*rows, f"{summary} in {sum(line.seconds for line in lines):.0f} s"])
