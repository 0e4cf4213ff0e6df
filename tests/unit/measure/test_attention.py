"""Which kernel of attention ran is seen, the one that is no operator too."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from bench.measure.witness import DispatchWitness
from tests.small_launch import build, columns_of


def attend() -> None:
    """Call attention and its backward."""
    query, key, value = (torch.randn(1, 2, 8, 16, requires_grad=True) for _ in range(3))
    scaled_dot_product_attention(query, key, value, is_causal=True).sum().backward()


def test_a_fused_kernel_is_seen_by_its_operator() -> None:
    with DispatchWitness() as witness:
        attend()
    assert witness.result().attention_backends == ("flash",)


def test_the_mathematical_form_is_seen_by_the_call_that_reached_no_operator() -> None:
    with DispatchWitness() as witness, sdpa_kernel(SDPBackend.MATH):
        attend()
    assert witness.result().attention_backends == ("math",)


def test_several_kernels_are_all_named() -> None:
    with DispatchWitness() as witness:
        attend()
        with sdpa_kernel(SDPBackend.MATH):
            attend()
    assert witness.result().attention_backends == ("flash", "math")


def test_without_attention_there_is_none() -> None:
    with DispatchWitness() as witness:
        torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3)).softmax(-1)
    assert witness.result().attention_backends == ()


@pytest.mark.parametrize("activation_checkpointing", [False, True])
@pytest.mark.parametrize("preset", ["gpt2-nano", "llama-nano"])
def test_a_launch_says_what_its_model_used(preset: str, activation_checkpointing: bool) -> None:
    columns = columns_of(build(model={"preset": preset}, activation_checkpointing=activation_checkpointing))
    assert columns["attention_backends"] == ["flash"]


def test_a_launch_without_attention_says_null() -> None:
    bench = build()
    for block in bench.model.blocks:  # type: ignore[union-attr]
        block.attention.forward = lambda x: x
    assert columns_of(bench)["attention_backends"] is None
