"""Causal attention through a fused kernel wherever torch has one, also where query heads share key and value heads."""

# B = micro-batch [sequences], T = tokens of a row, H = query heads, K = key and value heads, E = channels of a head

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

_MATH = 0
"""What torch answers where no fused kernel takes the tensors (`at::SDPBackend::math`)."""

_is_repeated: dict[Any, bool] = {}
"""Kind of tensors -> whether keys and values are repeated for them; asked once, since every call would pay for it."""


def causal_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Mix values (B, K, T, E) by query (B, H, T, E) and key (B, K, T, E) to (B, H, T, E); t sees 0 .. t.

    Not every fused kernel takes fewer key and value heads than query heads: before torch 2.14 none does in float32, nor
    in 16 bits on a GPU older than the A100. Torch then falls to the mathematical form, which makes a table of T x T
    scores for each head. There keys and values are repeated for each query head: H/K times their memory, and the same
    arithmetic.
    """
    if query.shape[1] == key.shape[1]:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    if _needs_repeated(query, key, value):
        key, value = _repeated(query, key, value)
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


def _repeated(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    times = query.shape[1] // key.shape[1]
    return key.repeat_interleave(times, dim=1), value.repeat_interleave(times, dim=1)


def _needs_repeated(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Tell whether torch has a fused kernel for these tensors only with as many key heads as query heads."""
    # A layout may decide too, but is the same at every call of a model.
    kind = (query.device, query.dtype, query.shape, key.shape[1], query.requires_grad, torch.is_grad_enabled())
    known = _is_repeated.get(kind)
    if known is None:
        known = _choice(query, key, value, is_grouped=True) == _MATH and (
            _choice(query, *_repeated(query, key, value), is_grouped=False) != _MATH
        )
        _is_repeated[kind] = known
    return known


def _choice(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_grouped: bool) -> int:
    """Ask torch which kernel it would take; attention itself asks the same."""
    return int(torch._fused_sdp_choice(query, key, value, is_causal=True, enable_gqa=is_grouped))
