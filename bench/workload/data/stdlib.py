"""Text that every machine has: the source files of Python's own standard library, one document per top-level block.

Blocks are of very unequal length, from one import to a class of thousands of lines, as documents of a real corpus are.
"""

from __future__ import annotations

import ast
import os
import platform
import sysconfig
import warnings
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.workload.data.byte_tokens import join_documents
from bench.workload.data.cache import Made

_LEFT_OUT = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"})


def fingerprint() -> dict[str, Any]:
    """Identify this interpreter's standard library without reading it."""
    root = Path(sysconfig.get_path("stdlib"))
    return {"stdlib": str(root), "python": platform.python_version(), "folder_mtime_ns": root.stat().st_mtime_ns}


def read() -> Made:
    """Read every module, in the order of their paths, as byte-level documents."""
    root = Path(sysconfig.get_path("stdlib"))
    return join_documents(block for path in module_files(root) for block in split_blocks(path.read_bytes()))


def module_files(root: Path) -> list[Path]:
    """List the .py files below a folder in the order of their paths, without tests and installed packages."""
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in _LEFT_OUT]
        found += [Path(folder, name) for name in names if name.endswith(".py")]
    return sorted(found)


def split_blocks(source: bytes) -> list[bytes]:
    """Split a module into its top-level statements; joined again they give the source back.

    A block begins at the statement's decorators and at the comments that follow the previous statement's blank lines;
    blank lines end the block before them. A file that this Python cannot parse is one block.
    """
    lines = source.splitlines(keepends=True)
    starts = {0, *_starts(source, lines)}
    borders = [*sorted(starts), len(lines)]
    blocks = [b"".join(lines[start:stop]) for start, stop in pairwise(borders)]
    return [block for block in blocks if block]


def _starts(source: bytes, lines: list[bytes]) -> Iterable[int]:
    """Find the 0-based lines where top-level blocks begin, except the first."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old escapes in a library file are not the user's business
            statements = ast.parse(source).body
    except (SyntaxError, ValueError):
        return
    for previous, statement in pairwise(statements):
        decorators = getattr(statement, "decorator_list", [])
        first_line = min(node.lineno for node in (statement, *decorators)) - 1
        after_previous = previous.end_lineno or previous.lineno
        start = min(after_previous, first_line)
        while start < first_line and not lines[start].strip():
            start += 1
        if start >= after_previous:  # not a second statement on the previous one's last line
            yield start
