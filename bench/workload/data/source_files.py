"""The user's own files: text by glob, or a flat file of token ids."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import BenchError
from bench.workload.data.byte_tokens import join_documents
from bench.workload.data.cache import Made

_CHUNK = 1 << 24  # ids looked at together, so that a file of any size is read in bounded memory


def fingerprint(files: Sequence[Path], read_as: str) -> dict[str, Any]:
    """Identify the state of files by name, size and time of change, without reading them."""
    states = [(str(path), path.stat()) for path in files]
    return {"read_as": read_as, "files": [[name, state.st_size, state.st_mtime_ns] for name, state in states]}


def find_text_files(pattern: str) -> list[Path]:
    """List the files of a glob (`**` for any depth, `~` for home) in the order of their paths.

    Raises:
        BenchError: The glob matches no file, or only empty ones.
    """
    # Path.glob takes no absolute pattern.
    matches = glob.glob(str(Path(pattern).expanduser()), recursive=True)  # noqa: PTH207
    files = sorted({Path(match).resolve() for match in matches if Path(match).is_file()})
    if not files:
        raise BenchError(
            f"data.text = {pattern} matches no file, seen from {Path.cwd()}. "
            "Check the glob: ** matches any depth, a relative path starts at the current folder."
        )
    if not any(path.stat().st_size for path in files):
        raise BenchError(f"data.text = {pattern} matches only empty files ({len(files)}). Name files that hold text.")
    return files


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


def find_token_file(name: str) -> Path:
    """Find a .bin file and check that it can hold uint16 ids.

    Raises:
        BenchError: No such file, empty, or an odd number of bytes.
    """
    path = Path(name).expanduser().resolve()
    if not path.is_file():
        raise BenchError(f"data.tokens = {name}: there is no file {path}. Give the path of a flat uint16 .bin file.")
    size = path.stat().st_size
    if size == 0:
        raise BenchError(f"data.tokens = {name} is an empty file. Give a flat file of uint16 token ids.")
    if size % 2:
        raise BenchError(
            f"data.tokens = {name} has {size} bytes, not a whole number of uint16 ids: it is cut short or of another "
            "type. Write it as numpy uint16, as nanoGPT's prepare.py does."
        )
    return path


def read_token_file(path: Path, end_of_text: int | None) -> Made:
    """Read a flat file of little-endian uint16 ids, nanoGPT's layout, in place: it is mapped, not copied.

    With `end_of_text` a document ends after each such id, and what follows the last one is a document too; without it
    the file is one stream.

    Raises:
        BenchError: The file cannot be read, or `end_of_text` never occurs.
    """
    try:
        tokens: NDArray[np.uint16] = np.memmap(path, dtype="<u2", mode="r")
    except OSError as error:
        raise BenchError(f"data.tokens = {path} cannot be read: {error.strerror}. Fix its permissions.") from error
    largest, ends = 0, []
    for start in range(0, tokens.size, _CHUNK):
        chunk = np.asarray(tokens[start : start + _CHUNK])
        largest = max(largest, int(chunk.max()))
        if end_of_text is not None:
            ends.append(np.flatnonzero(chunk == end_of_text) + start + 1)
    borders = np.concatenate(ends) if ends else np.empty(0, dtype=np.int64)
    if end_of_text is not None and borders.size == 0:
        raise BenchError(
            f"data.end_of_text = {end_of_text} never occurs in {path}. "
            "Give the id that ends a document there, or leave it out."
        )
    return Made(
        tokens,
        np.unique(np.concatenate([[0], borders, [tokens.size]])).astype(np.int64),
        vocab_size=largest + 1,
        has_document_borders=end_of_text is not None,
        token_file=path,
    )
