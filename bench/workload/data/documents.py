"""Rows of the user's files become documents: ids one after the other, with borders and with prompts marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.errors import BenchError
from bench.workload.data.cache import Made
from bench.workload.data.columns import Columns, choose_columns
from bench.workload.data.row_files import Kind, Row, first_columns, read_rows, shown
from bench.workload.data.tokenizer import Encoder, Ids

_TOGETHER = 1024  # rows encoded together: a tokenizer uses several threads for them

Item = TypeVar("Item")


def read_documents(data: Mapping[str, Any], kind: Kind, files: Sequence[Path], encoder: Encoder) -> Made:
    """Read each row as a document; empty ones are left out.

    Text is encoded and ended by the end-of-text id. Of a prompt and its completion each is encoded for itself, the
    end-of-text id belongs to the completion, and the tokens of the prompt are no targets. Lists of ids are taken as
    they are.

    Raises:
        BenchError: A file or a row cannot be used, names it; or there is none.
    """
    columns = find_columns(data, kind, files)
    rows = _rows(columns, kind, files)
    documents = _Documents()
    for some in _groups(rows, _TOGETHER):
        if columns.kind == "tokens":
            documents.add([ids for row in some if (ids := columns.ids(row)).size])
        else:
            _add_texts(documents, [columns.texts(row) for row in some], encoder)
    return documents.made(f"data.{kind} = {data[kind]}", None if columns.kind == "tokens" else encoder.vocab_size)


def read_texts(files: Sequence[Path], pattern: str, encoder: Encoder) -> Made:
    """Read each file of text, in UTF-8, as one document, encoded and ended by the end-of-text id.

    Raises:
        BenchError: A file cannot be read, or is not UTF-8.
    """
    documents = _Documents()
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise BenchError(
                f"data.text = {pattern}: {path} cannot be read: {error.strerror}. Fix permissions or narrow the glob."
            ) from error
        except UnicodeDecodeError as error:
            raise BenchError(
                f"data.text = {pattern}: byte {error.start + 1} of {shown(path)} is not UTF-8, which a tokenizer "
                "needs. Convert the file, or leave tokenizer out: bytes may be in any encoding."
            ) from error
        _add_texts(documents, [(text,)], encoder)
    return documents.made(f"data.text = {pattern}", encoder.vocab_size)


def find_columns(data: Mapping[str, Any], kind: Kind, files: Sequence[Path]) -> Columns:
    """Choose the columns by the first row, and look for them in the first row of every file.

    Raises:
        BenchError: A file or a first row cannot be used, or there is none.
    """
    columns: Columns | None = None
    for path in files:
        first = first_columns(kind, path)
        if first is not None:
            where, there = first
            if columns is None:
                columns = choose_columns(data, there, where)
            columns.check(there, where)
    if columns is None:
        raise BenchError(f"data.{kind} = {data[kind]} has no row. Name files that hold rows.")
    return columns


def _rows(columns: Columns, kind: Kind, files: Sequence[Path]) -> Iterator[Row]:
    for path in files:
        for row in read_rows(kind, path, columns.names):
            columns.check(list(row.values), row.where)
            yield row


def _groups(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    iterator = iter(items)
    while group := list(islice(iterator, size)):
        yield group


def _add_texts(documents: _Documents, rows: Sequence[tuple[str, ...]], encoder: Encoder) -> None:
    """Add documents of one text each, or of a prompt and its completion."""
    kept = [texts for texts in rows if any(texts)]
    if not kept:
        return
    end = np.array([encoder.end_of_text], dtype=np.uint32)
    *prompts, bodies = [encoder.encode(texts) for texts in zip(*kept, strict=True)]
    heads = prompts[0] if prompts else [end[:0]] * len(kept)
    joined = [np.concatenate([head, body, end]) for head, body in zip(heads, bodies, strict=True)]
    documents.add(joined, [head.size for head in heads] if prompts else None)


class _Documents:
    """Collect documents in chunks, so that many small ones cost no array each."""

    def __init__(self) -> None:
        self._chunks: list[NDArray[np.uint16] | NDArray[np.uint32]] = []
        self._lengths: list[int] = []
        self._prompts: list[int] = []
        self._largest = 0

    def add(self, documents: Sequence[Ids], prompts: Sequence[int] | None = None) -> None:
        """Add documents, each with the length of its prompt where rows have prompts [tokens]."""
        if not documents:
            return
        joined = np.concatenate(documents)
        largest = int(joined.max())
        self._largest = max(self._largest, largest)
        self._chunks.append(joined if largest >= 1 << 16 else joined.astype(np.uint16))
        self._lengths += [document.size for document in documents]
        self._prompts += prompts or []

    def made(self, source: str, vocab_size: int | None) -> Made:
        """Lay all documents one after the other.

        Raises:
            BenchError: There is none.
        """
        if not self._lengths:
            raise BenchError(f"{source} holds only empty documents. Name files that hold text.")
        offsets = np.cumsum([0, *self._lengths], dtype=np.int64)
        is_prompt = None
        if self._prompts:
            is_prompt = np.zeros(offsets[-1], dtype=np.bool_)
            for start, length in zip(offsets, self._prompts, strict=False):  # the last offset starts none
                is_prompt[start : start + length] = True
        return Made(np.concatenate(self._chunks), offsets, vocab_size or self._largest + 1, is_prompt=is_prompt)
