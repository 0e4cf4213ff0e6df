"""Keys and values are repeated exactly where torch has no fused kernel for fewer of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional

from bench.workload import attention
from bench.workload.attention import causal_attention

_attend = functional.scaled_dot_product_attention
FLASH, MATH = 1, 0


@pytest.fixture(autouse=True)
def ask_anew() -> Iterator[None]:
    attention._is_repeated.clear()
    yield
    attention._is_repeated.clear()


def tensors(num_kv_heads: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(2, 4, 8, 16, generator=generator, dtype=torch.float64, requires_grad=True)
    key, value = (
        torch.randn(2, num_kv_heads, 8, 16, generator=generator, dtype=torch.float64, requires_grad=True)
        for _ in range(2)
    )
    return query, key, value


class Torch:
    """Answer as a torch would whose kernels take this and that, and note the calls of attention."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, grouped: int, whole: int) -> None:
        self.asked = 0
        self.calls: list[tuple[int, bool]] = []
        self._answers = {True: grouped, False: whole}
        monkeypatch.setattr(torch, "_fused_sdp_choice", self._choose)
        monkeypatch.setattr(functional, "scaled_dot_product_attention", self._attend)

    def _choose(self, *_: Any, enable_gqa: bool, **__: Any) -> int:
        self.asked += 1
        return self._answers[enable_gqa]

    def _attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **options: Any) -> torch.Tensor:
        self.calls.append((key.shape[1], options.get("enable_gqa", False)))
        return _attend(query, key, value, **options)


@pytest.mark.parametrize(
    ("num_kv_heads", "grouped", "whole", "call"),
    [
        (4, MATH, MATH, (4, False)),
        (2, FLASH, FLASH, (2, True)),
        (2, MATH, FLASH, (4, False)),
        (1, MATH, FLASH, (4, False)),
        (2, MATH, MATH, (2, True)),  # nothing to gain, and memory to lose
    ],
)
def test_repeated_only_where_that_gives_a_fused_kernel(
    monkeypatch: pytest.MonkeyPatch, num_kv_heads: int, grouped: int, whole: int, call: tuple[int, bool]
) -> None:
    told = Torch(monkeypatch, grouped, whole)
    causal_attention(*tensors(num_kv_heads))
    assert told.calls == [call]


def test_torch_is_asked_once_for_each_kind_of_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Torch(monkeypatch, FLASH, FLASH)
    given = tensors(2)
    for _ in range(3):
        causal_attention(*given)
    assert told.asked == 1
    with torch.no_grad():
        causal_attention(*given)
    causal_attention(*(each.float() for each in given))
    assert told.asked == 3


def test_both_ways_give_the_same_values_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for grouped in (FLASH, MATH):
        attention._is_repeated.clear()
        Torch(monkeypatch, grouped, FLASH)
        given = tensors(2)
        mixed = causal_attention(*given)
        weights = torch.arange(mixed.numel(), dtype=mixed.dtype).reshape(mixed.shape)
        (mixed * weights).sum().backward()
        found.append([mixed.detach(), *(each.grad for each in given)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
