"""Random documents have the lengths that were asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import BenchError
from bench.workload.data.synthetic import draw


def spec(**changes: Any) -> dict[str, Any]:
    return {"documents": 4000, "mean_tokens": 50, "min_tokens": 2, "vocab_size": 100, **changes}


@settings(max_examples=25)
@given(
    documents=st.integers(1, 50),
    least=st.integers(1, 20),
    above=st.integers(0, 30),
    room=st.none() | st.integers(0, 30),
    vocab_size=st.sampled_from([2, 65536, 65537, 10**9]),
    distribution=st.sampled_from(["geometric", "lognormal"]),
)
def test_lengths_and_ids_stay_in_their_ranges(
    documents: int, least: int, above: int, room: int | None, vocab_size: int, distribution: str
) -> None:
    """Every document is at least and at most as long as stated, every id below the vocabulary."""
    most = None if room is None else least + above + room
    made = draw(
        {
            "documents": documents,
            "mean_tokens": least + above,
            "min_tokens": least,
            "max_tokens": most,
            "vocab_size": vocab_size,
            "distribution": distribution,
        }
    )
    lengths = np.diff(made.offsets)
    assert lengths.size == documents
    assert lengths.min() >= least
    assert most is None or lengths.max() <= most
    assert made.offsets[-1] == made.tokens.size
    assert int(made.tokens.max()) < vocab_size
    assert made.vocab_size == vocab_size


@pytest.mark.parametrize("distribution", ["geometric", "lognormal"])
def test_mean_length_is_as_asked(distribution: str) -> None:
    """Within five standard errors of a fixed draw."""
    lengths = np.diff(draw(spec(distribution=distribution)).offsets)
    assert abs(lengths.mean() - 50) < 5 * lengths.std() / np.sqrt(lengths.size)


def test_seed_makes_the_corpus() -> None:
    """The same seed gives the same tokens, another one others."""
    first, again, other = draw(spec(seed=1)), draw(spec(seed=1)), draw(spec(seed=2))
    assert np.array_equal(first.tokens, again.tokens)
    assert not np.array_equal(first.offsets, other.offsets)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min_tokens": 60}, "min_tokens = 60, mean_tokens = 50"),
        ({"max_tokens": 40}, "max_tokens = 40"),
        ({"documents": 10**9}, "Use fewer documents"),
        ({"distribution": "normal"}, "distribution = normal is not one of geometric, lognormal"),
    ],
)
def test_contradicting_numbers_are_refused(changes: dict[str, Any], message: str) -> None:
    """Each with the field that is wrong."""
    with pytest.raises(BenchError, match=message):
        draw(spec(**changes))
