"""The tokens to train on: any source becomes one flat array of ids with document borders.

No torch here: the driver reads corpus facts too. What took work to make is kept in a cache folder and memory-mapped
from there, so that a fresh process per launch starts in milliseconds.
"""

# N = tokens of the corpus, D = documents

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.errors import BenchError
from bench.workload.data import columns, documents, row_files, source_files, stdlib, synthetic, token_files, tokenizer
from bench.workload.data.cache import Entry, open_or_make


@dataclass(frozen=True)
class Corpus:
    """Tokens and document borders of one data source."""

    tokens: NDArray[np.integer[Any]]
    """(N,) token ids of all documents one after the other; memory-mapped, read-only."""
    offsets: NDArray[np.int64]
    """(D + 1,) int64: document d is tokens[offsets[d] : offsets[d + 1]]."""
    content_hash: str
    """SHA-256 of tokens, offsets and prompts: equal exactly when the data are equal [hex]."""
    vocab_size: int
    """Every id is below it [ids]."""
    source: str
    """What it was read from, in words for a message."""
    has_document_borders: bool
    """False for one stream of tokens, which `ragged` and `padded` rows cannot cut."""
    is_prompt: NDArray[np.bool_] | None = None
    """(N,) true where a token belongs to a prompt and is no target; null where every token may be one; read-only."""

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

    Sources: `corpus: stdlib`; `text`, `jsonl` and `parquet`, globs; `tokens`, a file of ids; `synthetic`, a length
    distribution. Keys that say how the corpus is used (`rows`, `sequences_per_epoch`, `tail`) are not looked at.

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
        is_prompt=entry.is_prompt,
    )


def faults(data: Mapping[str, Any] | _Dumps) -> Iterator[str]:
    """Say what is wrong with the files that `data` names, as far as their beginnings tell; each names its setting.

    Nothing is read whole: of rows the first of each file, of other files the first bytes.
    """
    fields = data if isinstance(data, Mapping) else data.model_dump()
    for look in (_look_at_tokenizer, _look_at_source):
        try:
            look(fields)
        except BenchError as error:
            yield str(error)


def _look_at_tokenizer(fields: Mapping[str, Any]) -> None:
    if fields.get("tokenizer") is not None:
        _encoder(fields)


def _look_at_source(fields: Mapping[str, Any]) -> None:
    if fields.get("text") is not None:
        source_files.find_text_files(fields["text"])
    elif fields.get("tokens") is not None:
        token_files.find_token_file(fields["tokens"], fields.get("token_dtype"))
    elif (kind := _kind_of_rows(fields)) is not None:
        documents.find_columns(fields, kind, source_files.find_files(kind, fields[kind], f".{kind}"))


def _encoder(fields: Mapping[str, Any]) -> tokenizer.Encoder:
    """Load what makes ids of text."""
    if fields.get("tokenizer") is None:
        return tokenizer.Bytes()
    return tokenizer.FileTokenizer(tokenizer.find_tokenizer(fields["tokenizer"]), fields.get("end_of_text"))


def _tokenizer_key(fields: Mapping[str, Any]) -> dict[str, Any]:
    """State what the ids of a text depend on beside the text; nothing where they are its bytes."""
    if fields.get("tokenizer") is None:
        return {}
    path = tokenizer.find_tokenizer(fields["tokenizer"])
    return {**tokenizer.fingerprint(path), "end_of_text": fields.get("end_of_text")}


def _kind_of_rows(fields: Mapping[str, Any]) -> row_files.Kind | None:
    kinds: tuple[row_files.Kind, ...] = ("jsonl", "parquet")
    return next((kind for kind in kinds if fields.get(kind) is not None), None)


def _open(fields: Mapping[str, Any]) -> tuple[Entry, str]:
    """Find the one source that is given."""
    if fields.get("text") is not None:
        return _open_text(fields), f"text: {fields['text']}"
    if (kind := _kind_of_rows(fields)) is not None:
        return _open_rows(fields, kind), f"{kind}: {fields[kind]}"
    if fields.get("tokens") is not None:
        file = token_files.find_token_file(str(fields["tokens"]), fields.get("token_dtype"))
        end_of_text = fields.get("end_of_text")
        key = {**source_files.fingerprint([file.path], file.dtype), "end_of_text": end_of_text}
        return open_or_make(key, lambda: token_files.read_token_file(file, end_of_text)), f"tokens: {file.path}"
    if fields.get("synthetic") is not None:
        drawn = dict(fields["synthetic"])
        return open_or_make({"synthetic": drawn}, lambda: synthetic.draw(drawn)), "synthetic"
    name = fields.get("corpus") or "stdlib"
    if name != "stdlib":
        raise BenchError(
            f"data.corpus = {name} is not a known corpus. Use stdlib, or give text, jsonl, parquet, tokens or "
            "synthetic."
        )
    return open_or_make(stdlib.fingerprint(), stdlib.read), "corpus: stdlib"


def _open_text(fields: Mapping[str, Any]) -> Entry:
    pattern = str(fields["text"])
    files = source_files.find_text_files(pattern)
    key = {**source_files.fingerprint(files, "bytes"), **_tokenizer_key(fields)}
    if fields.get("tokenizer") is None:
        return open_or_make(key, lambda: source_files.read_text_files(files, pattern))
    return open_or_make(key, lambda: documents.read_texts(files, pattern, _encoder(fields)))


def _open_rows(fields: Mapping[str, Any], kind: row_files.Kind) -> Entry:
    files = source_files.find_files(kind, str(fields[kind]), f".{kind}")
    asked = columns.asked_columns(fields)
    key = {
        **source_files.fingerprint(files, kind),
        "columns": None if asked is None else [asked.kind, *asked.names],
        **_tokenizer_key(fields),
    }
    return open_or_make(key, lambda: documents.read_documents(fields, kind, files, _encoder(fields)))
