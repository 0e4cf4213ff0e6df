"""Text becomes ids: its bytes, or what a file tokenizer.json makes of it by the tokenizers library."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.errors import BenchError
from bench.workload.data.byte_tokens import BYTE_VOCAB_SIZE, END_OF_TEXT
from bench.workload.data.source_files import at_home

Ids = NDArray[np.uint32]

_ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<EOS>", "[EOS]", "<|eos|>")
"""What tokenizers in use call the end of a text."""


class Encoder(Protocol):
    """Make ids of texts; no document is ended here."""

    end_of_text: int
    """Id that ends a document."""
    vocab_size: int | None
    """Every id is below it, whatever the text; null where the largest id that occurs tells [ids]."""

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Give the ids of each text, without any special ones that were not asked for."""
        ...


class Bytes:
    """Take the bytes of a text in UTF-8 as its ids."""

    end_of_text = END_OF_TEXT
    vocab_size: int | None = BYTE_VOCAB_SIZE

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Give the bytes of each text."""
        return [np.frombuffer(text.encode(), dtype=np.uint8).astype(np.uint32) for text in texts]


class FileTokenizer:
    """Encode with a tokenizer.json; what it says of truncation, padding and special tokens around a text is left out.

    Those belong to a model's input, and rows are cut, filled up and ended here.
    """

    vocab_size: int | None = None

    def __init__(self, path: Path, end_of_text: int | None) -> None:
        """Load the file; without `end_of_text`, take the token it has for that.

        Raises:
            BenchError: The library is missing, the file is none of its kind, or no token is known to end a text.
        """
        self._tokenizer = _load(path)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.end_of_text = self._known_end(path) if end_of_text is None else end_of_text
        if self._tokenizer.id_to_token(self.end_of_text) is None:
            size = self._tokenizer.get_vocab_size()
            raise BenchError(
                f"data.end_of_text = {end_of_text} is no id of {path.name}, which has {size}. {self._special()}"
            )

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Give the ids of each text."""
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [np.array(one.ids, dtype=np.uint32) for one in encoded]

    def _known_end(self, path: Path) -> int:
        found = [(name, self._tokenizer.token_to_id(name)) for name in _ENDS]
        ids = sorted({id_ for _, id_ in found if id_ is not None})
        if len(ids) != 1:
            several = ", ".join(name for name, id_ in found if id_ is not None)
            what = f"has several tokens that may end a text ({several})" if ids else "has no token known to end a text"
            raise BenchError(
                f"data.tokenizer = {path} {what}. Add end_of_text, the id that ends each document. {self._special()}"
            )
        return int(ids[0])

    def _special(self) -> str:
        """List the special tokens with their ids."""
        added = self._tokenizer.get_added_tokens_decoder()
        named = [f"{token.content} ({number})" for number, token in sorted(added.items()) if token.special]
        more = f" and {len(named) - 8} more" if len(named) > 8 else ""
        return f"Its special tokens: {', '.join(named[:8]) or 'none'}{more}."


def find_tokenizer(name: str) -> Path:
    """Find a tokenizer.json.

    Raises:
        BenchError: There is no such file.
    """
    path = at_home(name).resolve()
    if path.is_file():
        return path
    advice = "Give the path of a tokenizer.json, which a model's folder holds."
    if (path / "tokenizer.json").is_file():
        advice = f"Name the file in it: {name.rstrip('/')}/tokenizer.json."
    what = "is a folder" if path.is_dir() else f"is not there: no file {path}"
    raise BenchError(f"data.tokenizer = {name} {what}. {advice}")


def fingerprint(path: Path) -> dict[str, Any]:
    """Identify a tokenizer by the content of its file and the version of the library.

    Raises:
        BenchError: The file cannot be read.
    """
    try:
        library: str | None = version("tokenizers")
    except PackageNotFoundError:
        library = None
    try:
        return {"tokenizer": hashlib.sha256(path.read_bytes()).hexdigest(), "tokenizers": library}
    except OSError as error:
        raise BenchError(f"data.tokenizer = {path} cannot be read: {error.strerror}. Fix its permissions.") from error


def _load(path: Path) -> Any:
    """Load the file with the library, which is imported here alone: most runs do without it."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise BenchError(
            f"data.tokenizer = {path} needs the tokenizers library: pip install 'accumbench[hf]'. Without tokenizer "
            "the bytes of the text are its ids."
        ) from error
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no class of its own
        raise BenchError(
            f"data.tokenizer = {path} cannot be read as a tokenizer.json: {error}. Another kind becomes one by "
            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of transformers."
        ) from error
