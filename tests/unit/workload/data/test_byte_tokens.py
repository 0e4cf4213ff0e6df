"""Documents laid end to end."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bench.workload.data.byte_tokens import END_OF_TEXT, join_documents


@given(st.lists(st.binary(max_size=6), max_size=8))
def test_documents_can_be_taken_apart_again(documents: list[bytes]) -> None:
    """Borders and end marks are where the documents ended; empty documents are left out."""
    made = join_documents(documents)
    apart = [made.tokens[start:stop].tolist() for start, stop in pairwise(made.offsets)]
    assert apart == [[*document, END_OF_TEXT] for document in documents if document]
