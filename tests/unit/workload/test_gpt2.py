"""GPT-2 computes what its paper says."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch

from bench.sweep.presets import PRESETS
from bench.workload.build import build_model

Attention = Callable[..., torch.Tensor]
SHAPE = dataclasses.replace(PRESETS["gpt2-tiny"], width=16, num_heads=4, num_kv_heads=4, mlp_width=64, vocab_size=11)
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9]])


def large_model(tied_head: bool) -> torch.nn.Module:
    """Make weights so large that every part matters, biases and norms included."""
    model = build_model(dataclasses.replace(SHAPE, tied_head=tied_head), seed=1).double()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3, generator=generator)
    return model


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(1, keepdim=True)
    return centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt() * weight + bias


def gelu(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def plain_gpt2(w: dict[str, torch.Tensor], tokens: torch.Tensor, attend: Attention) -> torch.Tensor:
    x = w["token_embedding.weight"][tokens] + w["position_embedding.weight"][: len(tokens)]
    for n in range(SHAPE.num_layers):
        b = {name.removeprefix(f"blocks.{n}."): p for name, p in w.items() if name.startswith(f"blocks.{n}.")}
        normed = layer_norm(x, b["attention_norm.weight"], b["attention_norm.bias"])
        mixed = normed @ b["attention.query_key_value.weight"].T + b["attention.query_key_value.bias"]
        attended = attend(mixed[:, :16], mixed[:, 16:32], mixed[:, 32:], head_width=4)
        x = x + attended @ b["attention.project_out.weight"].T + b["attention.project_out.bias"]
        normed = layer_norm(x, b["mlp_norm.weight"], b["mlp_norm.bias"])
        inside = gelu(normed @ b["mlp.expand.weight"].T + b["mlp.expand.bias"])
        x = x + inside @ b["mlp.project_out.weight"].T + b["mlp.project_out.bias"]
    x = layer_norm(x, w["final_norm.weight"], w["final_norm.bias"])
    return x @ w.get("head.weight", w["token_embedding.weight"]).T


@pytest.mark.parametrize("tied_head", [True, False])
def test_forward_agrees_with_the_plain_formulas(tied_head: bool, plain_attention: Attention) -> None:
    """Against attention position by position, in float64."""
    model = large_model(tied_head)
    with torch.no_grad():
        expected = plain_gpt2(dict(model.named_parameters()), TOKENS[0], plain_attention)
        torch.testing.assert_close(model(TOKENS)[0], expected)


def test_no_position_sees_a_later_token() -> None:
    """A changed token changes its own position and later ones, never an earlier one."""
    model = large_model(True)
    for changed in range(6):
        others = TOKENS.clone()
        others[0, changed] = 7
        with torch.no_grad():
            differs = (model(others) != model(TOKENS))[0].any(1)
        assert differs.tolist() == [position >= changed for position in range(6)]


def test_rows_of_a_micro_batch_do_not_see_each_other() -> None:
    """Padding behind a row, and other rows, leave its predictions alone."""
    model = large_model(True)
    batch = torch.tensor([[3, 1, 4, 0, 0], [5, 9, 2, 6, 5]])
    with torch.no_grad():
        torch.testing.assert_close(model(batch)[0, :3], model(torch.tensor([[3, 1, 4]]))[0])
