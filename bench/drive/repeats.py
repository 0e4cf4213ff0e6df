"""Launches in a row that got nowhere in the same way: then it is seldom the trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.launch.outcome import WITH_STACKS

_AT = 2
"""So many in a row are told of, once."""

_CAUSES = {
    "join": "the ranks did not find each other: a firewall on the loopback interface, or a results folder that they do "
    "not share",
    "build": "reading the corpus or building the model may take longer than measure.start_timeout_s",
}
_ANY_CAUSE = "the machine may be too busy, another process may hold the GPU, or a limit may be too short"


class Repeats:
    """Notice that launch after launch is stopped at the same place."""

    def __init__(self) -> None:
        self._last: tuple[str, str | None] | None = None
        self._times = 0
        self._is_said = False

    def note(self, row: Mapping[str, Any]) -> str | None:
        """Take a launch into account; say what it may be once the second in a row ended so, and never again."""
        end = (row["outcome"], row.get("phase")) if row["outcome"] in WITH_STACKS else None
        self._times = self._times + 1 if end is not None and end == self._last else 1
        self._last = end
        if end is None or self._times < _AT or self._is_said:
            return None
        self._is_said = True
        outcome, phase = end
        where = f" in {phase}" if phase else ""
        return (
            f"{self._times} launches in a row ended as {outcome}{where}, so it is hardly the trials: "
            f"{_CAUSES.get(phase or '', _ANY_CAUSE)}. logs/*/rank-*.stacks in the results folder say where each rank "
            "was. Each further one takes as long; Ctrl-C ends the sweep and keeps what is finished, and --retry-failed "
            "runs them again."
        )
