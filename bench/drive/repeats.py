"""Launches in a row that got stuck at the same place: the trials are then seldom the cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.launch.outcome import WITH_STACKS

_AT = 2
"""So many in a row are reported, once."""

_CAUSES = {
    "join": "the ranks could not connect: a firewall on the loopback interface, or no shared results folder",
    "build": "reading the corpus or building the model may take longer than measure.start_timeout_s",
}
_ANY_CAUSE = "the machine may be too busy, another process may use the GPU, or a limit may be too short"


class Repeats:
    """Notice that launch after launch is stopped at the same place."""

    def __init__(self) -> None:
        self._last: tuple[str, str | None] | None = None
        self._times = 0
        self._is_said = False

    def note(self, row: Mapping[str, Any]) -> str | None:
        """Take a launch into account; say the likely cause once the second in a row ended alike, and only once."""
        end = (row["outcome"], row.get("phase")) if row["outcome"] in WITH_STACKS else None
        self._times = self._times + 1 if end is not None and end == self._last else 1
        self._last = end
        if end is None or self._times < _AT or self._is_said:
            return None
        self._is_said = True
        outcome, phase = end
        where = f" in {phase}" if phase else ""
        return (
            f"{self._times} launches in a row ended as {outcome}{where}, so the trials are probably not the cause: "
            f"{_CAUSES.get(phase or '', _ANY_CAUSE)}. See logs/*/rank-*.stacks in the results folder for where each "
            "rank was. Each further launch may take as long; Ctrl-C ends the sweep and keeps what is finished, and "
            "--retry-failed runs the stopped launches again."
        )
