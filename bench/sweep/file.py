"""A sweep file becomes a checked `Sweep`, or a list of all its faults with file and line."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from bench.errors import SweepFileError
from bench.sweep.check import check_document
from bench.sweep.document import read_document
from bench.sweep.trial import Sweep

__all__ = ["Sweep", "load_sweep", "question_of"]


def load_sweep(path: Path | str) -> Sweep:
    """Read and check a sweep file.

    Raises:
        SweepFileError: The file cannot be read, or has faults; all of them are listed, each with file and line.
    """
    path = Path(path)
    text = _read(path)
    document, faults = read_document(text)
    spec = None
    if document is not None:
        spec, found = check_document(document.plain)
        faults += [(document.line(fault.location), fault.sentence()) for fault in found]
    if faults or spec is None:
        raise SweepFileError([f"{path}:{line}: {sentence}" for line, sentence in sorted(set(faults))])
    return Sweep(spec.name, path, question_of(text), spec, spec.varied(), text)


def question_of(text: str) -> str:
    """Take the question a sweep file asks: its opening comment, the editor's schema line left out."""
    lines = []
    for line in text.lstrip("\ufeff").splitlines():
        if not line.startswith("#"):
            break
        comment = line.lstrip("#").strip()
        if not comment.startswith("yaml-language-server:"):
            lines.append(comment)
            if comment.endswith("?"):
                break
    if lines and not lines[-1].endswith("?"):
        lines = lines[:1]
    return re.sub(r"^question:\s*", "", " ".join(lines), flags=re.IGNORECASE)


def _read(path: Path) -> str:
    """Read a file as UTF-8 text, or say in one line why not."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise SweepFileError([f"{path}: There is no such file. {_advice_on_missing(path)}"]) from None
    except IsADirectoryError:
        raise SweepFileError([f"{path}: This is a folder, not a sweep file. {_advice_on_missing(path)}"]) from None
    except OSError as error:
        raise SweepFileError([f"{path}: The file cannot be read: {error.strerror}. Check its permissions."]) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        fault = f"{path}:{line}: The file is not UTF-8 text: byte 0x{byte:02x}. Save it as UTF-8."
        raise SweepFileError([fault]) from None


def _advice_on_missing(path: Path) -> str:
    """Name the sweep files near a path that is none."""
    folder = path if path.is_dir() else path.parent
    files = {file.stem: str(file) for file in sorted(folder.glob("*.yaml"))} if folder.is_dir() else {}
    likely = difflib.get_close_matches(path.stem, files, n=1)
    if likely and not path.is_dir():
        return f"Did you mean {files[likely[0]]}?"
    return (
        f"Sweep files there: {', '.join(list(files.values())[:5])}."
        if files
        else "`bench init quickstart` writes one that works."
    )
