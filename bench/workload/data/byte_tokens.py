"""Byte-level tokens: ids 0 .. 255 are the bytes, 256 ends a document. Any file is valid input, in any encoding."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bench.workload.data.cache import Made

END_OF_TEXT = 256
BYTE_VOCAB_SIZE = 257


def join_documents(documents: Iterable[bytes]) -> Made:
    """Lay documents one after the other, each ended by `END_OF_TEXT`; empty ones are left out."""
    kept = [document for document in documents if document]
    offsets = np.cumsum([0, *(len(document) + 1 for document in kept)], dtype=np.int64)
    # A byte that stands in for the end mark keeps the join in C; the marks are written over it.
    joined = np.frombuffer(b"".join(document + b"\0" for document in kept), dtype=np.uint8)
    tokens = joined.astype(np.uint16)
    tokens[offsets[1:] - 1] = END_OF_TEXT
    return Made(tokens, offsets, vocab_size=BYTE_VOCAB_SIZE)
