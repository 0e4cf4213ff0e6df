"""How long a test waits, all in one place: for something that happens, and as good as for ever.

A machine that is ten times slower, or as busy, must fail no test. So a wait ends with what it waits for; PATIENCE_S
only ends a test that would wait in vain, and nothing that works comes near it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeVar

PATIENCE_S = 600
"""Longest that anything in a test may take [s]; at least ten times what was ever seen."""
HANG_S = 3.0
"""A limit that must fire on a call that hangs, and not on the calls beside it, which take milliseconds [s]."""

ValueT = TypeVar("ValueT")


def wait_until(
    condition: Callable[[], ValueT | Literal[False] | None], what: str, pause_s: float = 0.02
) -> ValueT | Literal[True]:
    """Ask until the answer is neither None nor False, and give it; an AssertionError says what did not happen."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (answer := condition()) is None or answer is False:
        assert time.monotonic() < deadline_s, f"waited for {PATIENCE_S} s in vain: {what}"
        time.sleep(pause_s)
    return answer
