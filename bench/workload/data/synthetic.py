"""Random tokens in documents of a stated length distribution: for shapes that no text at hand has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import BenchError
from bench.workload.data.cache import Made

_LOGNORMAL_SIGMA = 1.0  # spread of log lengths; the mean of the distribution is exp(mu + sigma**2 / 2)
_MOST_TOKENS = 2**30


def draw(spec: Mapping[str, Any]) -> Made:
    """Draw document lengths, then ids uniform in 0 .. vocab_size - 1; the same spec always gives the same corpus.

    Lengths follow `distribution`: `geometric` above `min_tokens`, or `lognormal` with sigma 1 raised to at least
    `min_tokens`; both have the mean `mean_tokens` before lengths are cut at `max_tokens` or raised. No end mark is
    added.

    Args:
        spec: documents, mean_tokens, min_tokens, vocab_size; optionally max_tokens (none), distribution (geometric),
        seed (0).

    Raises:
        BenchError: The lengths contradict each other, the distribution is unknown, or the corpus would be too large.
    """
    documents, mean, least, vocab_size = (spec[key] for key in ("documents", "mean_tokens", "min_tokens", "vocab_size"))
    most = spec.get("max_tokens")
    if not least <= mean <= (most or mean):
        raise BenchError(
            f"data.synthetic: min_tokens = {least}, mean_tokens = {mean}, max_tokens = {most} are not in ascending "
            "order. Change the one that is out of order."
        )
    if documents * mean > _MOST_TOKENS:
        raise BenchError(
            f"data.synthetic: documents = {documents} of mean_tokens = {mean} exceed {_MOST_TOKENS} tokens. "
            "Use fewer documents."
        )
    generator = np.random.default_rng(spec.get("seed", 0))
    lengths = _lengths(generator, spec.get("distribution", "geometric"), documents, mean, least)
    offsets = np.concatenate([[0], np.cumsum(np.minimum(lengths, most or lengths.max()))]).astype(np.int64)
    count = int(offsets[-1])
    if vocab_size <= 2**16:
        return Made(generator.integers(0, vocab_size, size=count, dtype=np.uint16), offsets, vocab_size)
    return Made(generator.integers(0, vocab_size, size=count, dtype=np.uint32), offsets, vocab_size)


def _lengths(
    generator: np.random.Generator, distribution: str, documents: int, mean: int, least: int
) -> NDArray[np.int64]:
    """Draw the lengths of documents [tokens]."""
    if distribution == "geometric":
        return least - 1 + generator.geometric(1.0 / (mean - least + 1), size=documents)
    if distribution == "lognormal":
        mu = np.log(mean) - _LOGNORMAL_SIGMA**2 / 2
        drawn = np.rint(generator.lognormal(mu, _LOGNORMAL_SIGMA, size=documents)).astype(np.int64)
        return np.maximum(drawn, least)
    raise BenchError(f"data.synthetic.distribution = {distribution} is not one of geometric, lognormal.")
