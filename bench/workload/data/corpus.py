"""The tokens to train on: any source becomes one flat array of ids with document borders.

No torch here: the driver reads corpus facts too. What took work to make is kept in a cache folder and memory-mapped
from there, so that a fresh process per launch starts in milliseconds.
"""

# N = tokens of the corpus, D = documents

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.errors import BenchError
from bench.workload.data import source_files, stdlib, synthetic, token_files
from bench.workload.data.cache import Entry, open_or_make


@dataclass(frozen=True)
class Corpus:
    """Tokens and document borders of one data source."""

    tokens: NDArray[np.uint16] | NDArray[np.uint32]
    """(N,) token ids of all documents one after the other; memory-mapped, read-only."""
    offsets: NDArray[np.int64]
    """(D + 1,) int64: document d is tokens[offsets[d] : offsets[d + 1]]."""
    content_hash: str
    """SHA-256 of the token and offset values: equal exactly when the data are equal [hex]."""
    vocab_size: int
    """Every id is below it [ids]."""
    source: str
    """What it was read from, in words for a message."""
    has_document_borders: bool
    """False for one stream of tokens, which `ragged` and `padded` rows cannot cut."""

    def check_vocabulary(self, model_vocab_size: int, model_name: str) -> None:
        """Refuse a model whose vocabulary does not hold every id.

        Raises:
            BenchError: An id of the corpus is not below `model_vocab_size`.
        """
        if self.vocab_size > model_vocab_size:
            raise BenchError(
                f"{self.source} has token ids up to {self.vocab_size - 1}, but model {model_name} takes ids below "
                f"{model_vocab_size}. Choose a model with vocab_size >= {self.vocab_size}, or data with smaller ids."
            )


class _Dumps(Protocol):
    def model_dump(self) -> dict[str, Any]: ...


def load_corpus(data: Mapping[str, Any] | _Dumps) -> Corpus:
    """Load the corpus that a sweep file's `data` names, from the cache where its source has not changed.

    Sources: `corpus: stdlib`; `text`, a glob; `tokens`, a flat .bin file; `synthetic`, a length distribution. Keys
    that say how the corpus is used (`rows`, `sequences_per_epoch`, `tail`) are not looked at.

    Raises:
        BenchError: The source cannot be found, read or understood.
    """
    fields = data if isinstance(data, Mapping) else data.model_dump()
    entry, source = _open(fields)
    facts = entry.facts
    return Corpus(
        tokens=entry.tokens,
        offsets=entry.offsets,
        content_hash=facts["content_hash"],
        vocab_size=facts["vocab_size"],
        source=source,
        has_document_borders=facts["has_document_borders"],
    )


def find_files(key: str, name: str) -> None:
    """Look for the files that `data` names under `key`, text or tokens, without reading them whole.

    Raises:
        BenchError: They cannot be found, or are not what the key takes.
    """
    find = {"text": source_files.find_text_files, "tokens": token_files.find_token_file}[key]
    find(name)


def _open(fields: Mapping[str, Any]) -> tuple[Entry, str]:
    """Find the one source that is given."""
    if fields.get("text") is not None:
        pattern = str(fields["text"])
        files = source_files.find_text_files(pattern)
        entry = open_or_make(
            source_files.fingerprint(files, "bytes"), lambda: source_files.read_text_files(files, pattern)
        )
        return entry, f"text: {pattern}"
    if fields.get("tokens") is not None:
        path = token_files.find_token_file(str(fields["tokens"]))
        end_of_text = fields.get("end_of_text")
        key = {**source_files.fingerprint([path], "uint16"), "end_of_text": end_of_text}
        return open_or_make(key, lambda: token_files.read_token_file(path, end_of_text)), f"tokens: {path}"
    if fields.get("synthetic") is not None:
        drawn = dict(fields["synthetic"])
        return open_or_make({"synthetic": drawn}, lambda: synthetic.draw(drawn)), "synthetic"
    name = fields.get("corpus") or "stdlib"
    if name != "stdlib":
        raise BenchError(f"data.corpus = {name} is not a known corpus. Use stdlib, or give text, tokens or synthetic.")
    return open_or_make(stdlib.fingerprint(), stdlib.read), "corpus: stdlib"
