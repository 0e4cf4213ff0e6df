"""One mistake in a sweep: where it is, what is wrong, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.sweep.trial import show_value

Location = tuple[str | int, ...]
"""Keys and list positions from the top of the file down."""

LONGEST_VALUE = 70
"""A value is cut beyond this [characters]."""


@dataclass(frozen=True)
class Fault:
    """Hold one mistake: where it is, what is wrong, and what to do."""

    location: Location
    """The key or list item it is about; for a missing key, where it should be."""
    problem: str
    """Clause that follows "key = value"."""
    way_out: str
    """What to do, as a sentence without its full stop."""
    value: Any = None
    """Value found there."""
    shows_value: bool = True
    """Whether the value helps to see the fault."""

    def sentence(self, name: str | None = None) -> str:
        """Write the fault: name = value, problem, way out. `name` defaults to the dotted location."""
        shown = show_value(self.value)
        shown = shown if len(shown) <= LONGEST_VALUE else shown[: LONGEST_VALUE - 3] + "..."
        subject = dotted(self.location) if name is None else name
        start = f"{subject} = {shown} {self.problem}" if self.shows_value else f"{subject} {self.problem}"
        return f"{start.strip()}. {self.way_out}" + ("" if self.way_out.endswith("?") else ".")


def dotted(location: Location) -> str:
    """Write a location as base.data.rows or axes.amp_mode[2]."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
