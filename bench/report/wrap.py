"""Break text into lines, so that a command or a path in it can be copied."""

from __future__ import annotations

import textwrap


def wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Break text at spaces alone: a hyphen in a path or an option is part of it, and what is longer than a line stays.

    Args:
        text: Words of one paragraph.
        width: Of a line, its indent included [characters].
        first: What the first line begins with.
        rest: What each further line begins with.
    """
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
