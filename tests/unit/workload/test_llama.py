"""Llama computes what its paper says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from bench.sweep.presets import PRESETS
from bench.workload.build import build_model
from bench.workload.llama import Rotary

Attention = Callable[..., torch.Tensor]
SHAPE = dataclasses.replace(
    PRESETS["llama-tiny"], width=32, num_heads=4, num_kv_heads=2, mlp_width=48, vocab_size=11, rope_theta=100.0
)
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9]])


def large_model(num_kv_heads: int = 2, tied_head: bool = True) -> torch.nn.Module:
    """Make weights so large that every part matters, norms included."""
    model = build_model(dataclasses.replace(SHAPE, num_kv_heads=num_kv_heads, tied_head=tied_head), seed=1).double()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3, generator=generator)
    return model


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt() * weight


def turned(x: torch.Tensor, position: int) -> torch.Tensor:
    """Rotate channel pairs (i, i + E/2) of x (E,) as complex numbers."""
    half = x.shape[0] // 2
    angles = [position * SHAPE.rope_theta ** (-2 * i / (2 * half)) for i in range(half)]
    pairs = torch.complex(x[:half], x[half:]) * torch.exp(1j * torch.tensor(angles, dtype=torch.float64))
    return torch.cat([pairs.real, pairs.imag])


def plain_llama(w: dict[str, torch.Tensor], tokens: torch.Tensor, attend: Attention) -> torch.Tensor:
    x = w["token_embedding.weight"][tokens]
    for n in range(SHAPE.num_layers):
        b = {name.removeprefix(f"blocks.{n}."): p for name, p in w.items() if name.startswith(f"blocks.{n}.")}
        normed = rms_norm(x, b["attention_norm.weight"])
        query, key, value = (normed @ b[f"attention.{name}.weight"].T for name in ("query", "key", "value"))
        attended = attend(query, key, value, head_width=8, turn=turned)
        x = x + attended @ b["attention.project_out.weight"].T
        normed = rms_norm(x, b["mlp_norm.weight"])
        gate = normed @ b["mlp.gate.weight"].T
        inside = gate / (1 + torch.exp(-gate)) * (normed @ b["mlp.expand.weight"].T)
        x = x + inside @ b["mlp.project_out.weight"].T
    x = rms_norm(x, w["final_norm.weight"])
    return x @ w.get("head.weight", w["token_embedding.weight"]).T


@pytest.mark.parametrize(("num_kv_heads", "tied_head"), [(1, True), (2, True), (2, False), (4, True)])
def test_forward_agrees_with_the_plain_formulas(num_kv_heads: int, tied_head: bool, plain_attention: Attention) -> None:
    """Against attention position by position and complex rotations, grouped or not, in float64."""
    model = large_model(num_kv_heads, tied_head)
    with torch.no_grad():
        expected = plain_llama(dict(model.named_parameters()), TOKENS[0], plain_attention)
        torch.testing.assert_close(model(TOKENS)[0], expected)


def test_no_position_sees_a_later_token() -> None:
    """A changed token changes its own position and later ones, never an earlier one."""
    model = large_model()
    for changed in range(6):
        others = TOKENS.clone()
        others[0, changed] = 7
        with torch.no_grad():
            differs = (model(others) != model(TOKENS))[0].any(1)
        assert differs.tolist() == [position >= changed for position in range(6)]


def test_rotation_keeps_length_and_depends_on_distance_alone() -> None:
    """The product of a turned query and key is the same for all pairs of positions equally far apart."""
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 8, generator=generator, dtype=torch.float64)
    rotary = Rotary(8, 100.0)
    queries, keys = (rotary(x.expand(1, 1, 9, 8))[0, 0] for x in (query, key))
    torch.testing.assert_close(queries.norm(dim=1), query.norm().expand(9))
    products = queries @ keys.T
    for distance in range(9):
        diagonal = products.diagonal(-distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert products[0, 0] != products[1, 0]


def test_16_bit_inputs_turn_by_float32_angles() -> None:
    """At position 1000 a 16-bit angle would be off by radians."""
    x = torch.ones(1, 1, 1001, 8, dtype=torch.bfloat16)
    rotary = Rotary(8, 100.0)
    assert rotary(x).dtype == torch.bfloat16
    torch.testing.assert_close(rotary(x), Rotary(8, 100.0)(x.double()).bfloat16())


def test_tables_follow_longer_rows_other_types_and_devices() -> None:
    """A table made for one use is not served for another."""
    rotary = Rotary(8, 100.0)
    short = rotary(torch.ones(1, 1, 3, 8))
    longer = rotary(torch.ones(1, 1, 7, 8))
    torch.testing.assert_close(longer[:, :, :3], short)
    exact = torch.ones(1, 1, 7, 8, dtype=torch.float64)
    assert torch.equal(rotary(exact), Rotary(8, 100.0)(exact))
    assert rotary(exact.to("meta")).device.type == "meta"
    assert torch.equal(rotary(exact), Rotary(8, 100.0)(exact))


def test_tables_are_no_buffers() -> None:
    """DDP would broadcast them before every forward, and they are no part of a checkpoint."""
    model = large_model()
    model(TOKENS)
    assert not list(model.buffers())
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}
