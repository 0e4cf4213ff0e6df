"""What a mutation is: one guard taken away, and the tests that must miss it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """Take one guard away."""

    fault: str
    """Row of docs/reliability.md that promises what the guard gives."""
    words: str
    """What is left when the guard is gone."""
    guard: str
    """Source text that stands exactly once below bench/, wherever that is."""
    without: str
    tests: tuple[str, ...]
    """What must then fail, below tests/."""
    also: tuple[tuple[str, str], ...] = ()
    """Second lines of defence, which would do alone: guard and what is left of each, taken away with it."""

    def edits(self) -> tuple[tuple[str, str], ...]:
        """List every guard and what is left of it."""
        return ((self.guard, self.without), *self.also)


def places_of(guard: str, sources: Mapping[str, str]) -> list[str]:
    """List the files that a guard stands in, once for each time it does; a mutation needs exactly one.

    Args:
        guard: Source text.
        sources: Text of every file, by name.
    """
    return [name for name, text in sources.items() for _ in range(text.count(guard))]
