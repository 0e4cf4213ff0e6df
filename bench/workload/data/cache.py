"""Made corpora kept on disk: one folder per source and state of it, published whole or not at all.

The folder is written aside and renamed. Where two processes make the same corpus, the second finds the name taken and
uses the first one's. A damaged entry is made again.
"""

# N = tokens of the corpus, D = documents

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import StorageError

_FORMAT = 3  # raised when a source gives other tokens, or an entry other facts, so that old entries are left alone
_HASH_CHUNK = 1 << 24  # ids hashed at a time, so that a file of any size is read in bounded memory
_NO_FILE_LEFT = (errno.EMFILE, errno.ENFILE)
"""Refusals that say nothing about the file: this process has no descriptor left (ulimit -n)."""
_ATTEMPTS = 3  # another process may be clearing a damaged entry at the same moment

Tokens = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class TokenFile:
    """A file that holds an array of ids, and where in it they lie."""

    path: Path
    dtype: str
    """Type of an id as numpy writes it, byte order included, such as <u2."""
    start: int
    """Bytes before the first id."""
    count: int
    """Ids in it."""

    def map(self) -> Tokens:
        """Map the ids, read-only.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is shorter than it was.
        """
        return np.memmap(self.path, self.dtype, "r", self.start, (self.count,))


@dataclass(frozen=True)
class Made:
    """What a source gives: tokens and borders, or a file of tokens that stays where it is."""

    tokens: Tokens
    """(N,) ids."""
    offsets: NDArray[np.int64]
    """(D + 1,) document borders."""
    vocab_size: int
    """Every id is below it [ids]."""
    has_document_borders: bool = True
    """False for one stream."""
    token_file: TokenFile | None = None
    """Where the ids lie, to be mapped in place of a copy; null when the cache holds the tokens."""
    is_prompt: NDArray[np.bool_] | None = None
    """(N,) true where a token belongs to a prompt, so that it is no target; null where every token may be one."""


@dataclass(frozen=True)
class Entry:
    """A corpus opened from the cache."""

    tokens: Tokens
    """(N,) ids, memory-mapped."""
    offsets: NDArray[np.int64]
    """(D + 1,) document borders, memory-mapped."""
    is_prompt: NDArray[np.bool_] | None
    """(N,) true where a token is no target, memory-mapped; null where every token may be one."""
    facts: dict[str, Any]
    """content_hash, vocab_size, has_document_borders, has_prompts, tokens, token_file."""


def cache_folder() -> Path:
    """Name the folder of made corpora: below $XDG_CACHE_HOME, else below the temporary directory."""
    home = os.environ.get("XDG_CACHE_HOME")
    # The temporary directory is shared: a name per user keeps the entries of others out.
    base = Path(home) / "accumbench" if home else Path(tempfile.gettempdir()) / f"accumbench-{os.getuid()}"
    return base / "corpora"


def open_or_make(key: Mapping[str, Any], make: Callable[[], Made]) -> Entry:
    """Open the corpus kept under `key`, or make and keep it.

    Args:
        key: Everything that the tokens depend on, JSON-serialisable: the source and a fingerprint of its state.
        make: Reads the source.

    Raises:
        BenchError: From `make`.
        StorageError: The cache folder cannot be written.
    """
    canonical = json.dumps({"format": _FORMAT, **key}, sort_keys=True)
    folder = cache_folder() / hashlib.sha256(canonical.encode()).hexdigest()[:32]
    for _ in range(_ATTEMPTS):
        was_there = folder.is_dir()
        try:
            return _open(folder)
        except (OSError, EOFError, ValueError, KeyError) as error:
            if isinstance(error, OSError) and error.errno in _NO_FILE_LEFT:
                raise StorageError(f"the prepared corpus in {folder} cannot be read: {error.strerror}.") from error
            if was_there:  # damaged; else another process may be publishing it just now
                shutil.rmtree(folder, ignore_errors=True)
        made = make()
        try:
            _publish(made, folder)
        except OSError as error:
            raise StorageError(
                f"the prepared corpus cannot be kept in {folder.parent}: {error.strerror}. "
                "Set XDG_CACHE_HOME to a writable folder with free space."
            ) from error
    raise StorageError(
        f"the prepared corpus in {folder} is damaged each time it is made. Set XDG_CACHE_HOME to another folder."
    )


def content_hash(tokens: Tokens, offsets: NDArray[np.int64], is_prompt: NDArray[np.bool_] | None = None) -> str:
    """Hash the values of tokens, offsets and prompts, whatever type the ids are stored in [SHA-256, hex]."""
    digest = hashlib.sha256()
    for start in range(0, tokens.size, _HASH_CHUNK):
        digest.update(tokens[start : start + _HASH_CHUNK].astype("<u4").data)
    for start in range(0, offsets.size, _HASH_CHUNK):
        digest.update(offsets[start : start + _HASH_CHUNK].astype("<i8").data)
    if is_prompt is not None:
        digest.update(np.packbits(is_prompt).data)
    return digest.hexdigest()


def _open(folder: Path) -> Entry:
    """Map an entry's files; any error means that it is not there or not whole."""
    facts = json.loads((folder / "facts.json").read_text())
    offsets = np.load(folder / "offsets.npy", mmap_mode="r")
    where = facts["token_file"]
    tokens = np.load(folder / "tokens.npy", mmap_mode="r") if where is None else _token_file(where).map()
    is_prompt = np.load(folder / "is_prompt.npy", mmap_mode="r") if facts["has_prompts"] else None
    if not tokens.size == facts["tokens"] == offsets[-1] or (is_prompt is not None and is_prompt.size != tokens.size):
        raise ValueError(f"{folder} does not match its own facts")
    return Entry(tokens, offsets, is_prompt, facts)


def _token_file(facts: Mapping[str, Any]) -> TokenFile:
    return TokenFile(Path(facts["path"]), facts["dtype"], facts["start"], facts["count"])


def _publish(made: Made, folder: Path) -> None:
    """Write an entry aside and rename it into place; a rename onto another process's entry loses, and that is fine."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        np.save(aside / "offsets.npy", made.offsets)
        if made.token_file is None:
            np.save(aside / "tokens.npy", made.tokens)
        if made.is_prompt is not None:
            np.save(aside / "is_prompt.npy", made.is_prompt)
        file = made.token_file
        facts = {
            "content_hash": content_hash(made.tokens, made.offsets, made.is_prompt),
            "vocab_size": made.vocab_size,
            "has_document_borders": made.has_document_borders,
            "has_prompts": made.is_prompt is not None,
            "tokens": int(made.tokens.size),
            "token_file": None if file is None else {**asdict(file), "path": str(file.path)},
        }
        (aside / "facts.json").write_text(json.dumps(facts))
        try:
            aside.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
