"""The user's own text files, by glob."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.workload.data.byte_tokens import join_documents
from bench.workload.data.cache import Made


def fingerprint(files: Sequence[Path], read_as: str) -> dict[str, Any]:
    """Identify the state of files by name, size and time of change, without reading them."""
    states = [(str(path), path.stat()) for path in files]
    return {"read_as": read_as, "files": [[name, state.st_size, state.st_mtime_ns] for name, state in states]}


def find_text_files(pattern: str) -> list[Path]:
    """List the text files of a glob, see `find_files`."""
    return find_files("text", pattern, ".txt")


def find_files(key: str, pattern: str, suffix: str) -> list[Path]:
    """List the files of a glob (`**` for any depth, `~` for home) in the order of their paths.

    What exists under its own name is meant as it is: brackets in a file's or a folder's name are no set of characters.

    Args:
        key: Key of `data` that holds the glob, for messages.
        pattern: The glob.
        suffix: What names of such files end in, for advice.

    Raises:
        BenchError: The glob matches no file, or only empty ones.
    """
    # Path.glob takes no absolute pattern.
    matches = glob.glob(_with_real_names(at_home(pattern)), recursive=True)  # noqa: PTH207
    files = sorted({Path(match).resolve() for match in matches if Path(match).is_file()})
    if not files:
        advice = "Check the glob: ** matches any depth, a relative path starts at the current folder."
        if any(Path(match).is_dir() for match in matches):
            advice = f"It is a folder: name its files, as in {pattern.rstrip('/')}/**/*{suffix}."
        elif "[" in pattern:
            advice += " In a glob [ ] is a set of characters; write [[] for the character itself."
        raise BenchError(f"data.{key} = {pattern} matches no file, seen from {Path.cwd()}. {advice}")
    if not any(path.stat().st_size for path in files):
        raise BenchError(f"data.{key} = {pattern} matches only empty files ({len(files)}). Name files that hold text.")
    return files


def at_home(name: str) -> Path:
    """Write `~` out as the home folder; that of an unknown user stays as it is, and is not found."""
    return Path(os.path.expanduser(name))  # noqa: PTH111 - Path.expanduser fails for an unknown user


def _with_real_names(pattern: Path) -> str:
    """Take the longest beginning of a glob that exists as it is written literally."""
    real = next((path for path in (pattern, *pattern.parents) if os.path.lexists(path)), Path())
    return str(Path(glob.escape(str(real))) / pattern.relative_to(real))


def read_text_files(files: Sequence[Path], pattern: str) -> Made:
    """Read each file as one byte-level document, ended by the end-of-text id; empty files are left out.

    Bytes are taken as they are: any encoding is fine.

    Raises:
        BenchError: A file cannot be read.
    """
    documents = []
    for path in files:
        try:
            documents.append(path.read_bytes())
        except OSError as error:
            raise BenchError(
                f"data.text = {pattern}: {path} cannot be read: {error.strerror}. Fix permissions or narrow the glob."
            ) from error
    return join_documents(documents)
