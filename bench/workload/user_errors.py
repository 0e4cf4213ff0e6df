"""What the user's own code raised, in a sentence that says where."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from pathlib import Path

from bench.errors import BenchError
from bench.units import cut_text

_NOT_THE_USERS = tuple(
    os.path.realpath(folder)
    for folder in {
        str(Path(__file__).parents[1]),
        *(
            path
            for name, path in sysconfig.get_paths().items()
            if name in ("stdlib", "platstdlib", "purelib", "platlib")
        ),
    }
)
_MOST_LETTERS = 400


class NoSuchNameError(BenchError):
    """Report that a name given on the command line names nothing: a wrong command, and no failed proof."""


_NO_SYNC = "no_sync exists on a DistributedDataParallel model alone, and the check hands over a plain one"


def described(error: BaseException) -> str:
    """Write an error's type, its first line, and the last line of the user's own code that led to it."""
    text = str(error).strip()
    words = f"{type(error).__name__}: {cut_text(text.splitlines()[0], _MOST_LETTERS) if text else 'no message'}"
    if isinstance(error, AttributeError) and "'no_sync'" in text:
        words += f"; {_NO_SYNC}"
    where = place_of(error)
    return f"{words} ({where})" if where else words


def place_of(error: BaseException) -> str:
    """Name file, line and text of the last call in the user's code; empty where none of it is the user's."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_the_users(frame.filename)]
    if not own:
        return ""
    frame = own[-1]
    line = f": {frame.line}" if frame.line else ""
    return f"{_short(frame.filename)}, line {frame.lineno}{line}"


def _is_the_users(file: str) -> bool:
    if file.startswith("<"):
        return False
    path = os.path.realpath(file)
    # A folder of one's own may lie inside the environment's, or this tool inside the user's: the deepest one counts.
    return not any(path.startswith(folder + os.sep) for folder in _NOT_THE_USERS) and path != sys.executable


def _short(file: str) -> str:
    relative = os.path.relpath(file)
    return file if relative.startswith(os.pardir) else relative
