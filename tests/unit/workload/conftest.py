"""One torch thread, a corpus cache of one's own, and attention from its definition."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "cache-home"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return home


@pytest.fixture
def plain_attention() -> Callable[..., torch.Tensor]:
    """Give the attention that models are held against; it shares nothing with them."""
    return _plain_attention


def _plain_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    head_width: int,
    turn: Callable[[torch.Tensor, int], torch.Tensor] = lambda x, position: x,
) -> torch.Tensor:
    """Attend causally, head by head and position by position.

    query (T, H * E), key and value (T, K * E) with heads side by side; query head h reads head h // (H / K). `turn` is
    applied to the query and key (E,) of a position. Returns (T, H * E).
    """
    length, num_heads = query.shape[0], query.shape[1] // head_width
    heads_per_key = num_heads // (key.shape[1] // head_width)
    out = torch.zeros_like(query)
    for head in range(num_heads):
        mine = slice(head * head_width, (head + 1) * head_width)
        shared = slice(head // heads_per_key * head_width, (head // heads_per_key + 1) * head_width)
        for t in range(length):
            seen = range(t + 1)
            scores = torch.stack([turn(query[t, mine], t) @ turn(key[s, shared], s) for s in seen])
            weights = torch.exp(scores / math.sqrt(head_width))
            out[t, mine] = weights @ value[: t + 1, shared] / weights.sum()
    return out
