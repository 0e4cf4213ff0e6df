"""With values: training on the stand-in GPU computes what the CPU computes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cuda.on_standin import run
from tests.cuda.values import COPY_BYTES

pytestmark = pytest.mark.cuda


def _train(device: str, dtype: str, options: dict[str, bool], inf_at: list[int] | None = None) -> dict[str, Any]:
    """Train a small transformer for four updates of two micro-batches, with a GradScaler and clipping."""
    import torch
    from torch.nn import functional

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.norm = torch.nn.Embedding(101, 64), torch.nn.LayerNorm(64)
            self.qkv, self.head = torch.nn.Linear(64, 192), torch.nn.Linear(64, 101)
            self.mlp = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))

        def forward(self, tokens: Any) -> Any:
            x = self.embedding(tokens)
            batch, length, _ = x.shape
            q, k, v = (part.view(batch, length, 4, 16).transpose(1, 2) for part in self.qkv(self.norm(x)).split(64, 2))
            attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + attended.transpose(1, 2).reshape(batch, length, 64)
            return self.head(x + self.mlp(x))

    torch.manual_seed(0)
    model, tokens = Model(), torch.randint(0, 101, (4, 32))
    model, tokens = model.to(device), tokens.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, **options)
    scaler = torch.amp.GradScaler(device, enabled=dtype == "float16")
    told: dict[str, Any] = {"losses": [], "norms": [], "scales": [], "weights": []}
    for update in range(4):
        for half in tokens.split(2):
            with torch.autocast(device, dtype=getattr(torch, dtype), enabled=dtype != "float32"):
                logits = model(half)[:, :-1].flatten(0, 1)
                loss = functional.cross_entropy(logits, half[:, 1:].flatten(), reduction="sum") / 124
            scaler.scale(loss).backward()
            told["losses"].append(loss.item())
        if update in (inf_at or []):
            model.head.bias.grad[3] = float("inf")
        scaler.unscale_(optimizer)
        told["norms"].append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        told["scales"].append(scaler.get_scale())
        told["weights"].append(model.qkv.weight.detach().cpu().double().sum().item())
    return told


def _on_both(dtype: str, options: dict[str, bool], inf_at: list[int] | None = None) -> list[dict[str, Any]]:
    from tests.cuda.values import Values

    on_cpu = _train("cpu", dtype, options, inf_at)
    with Values():
        on_gpu = _train("cuda", dtype, options, inf_at)
    return [on_cpu, on_gpu]


@pytest.mark.parametrize("option", ["foreach", "fused"])
def test_fp32_losses_equal_the_cpus(option: str) -> None:
    on_cpu, on_gpu = run(_on_both, "float32", {option: True}, copy_bytes=COPY_BYTES)
    assert on_gpu["losses"] == pytest.approx(on_cpu["losses"], rel=1e-6)
    assert on_gpu["norms"] == pytest.approx(on_cpu["norms"], rel=1e-5)
    assert on_gpu["weights"] == pytest.approx(on_cpu["weights"], rel=1e-4)
    assert on_gpu["losses"][-1] < on_gpu["losses"][0] - 1


@pytest.mark.parametrize(("dtype", "most"), [("bfloat16", 0.01), ("float16", 0.002)])
def test_losses_under_autocast_are_close_to_the_cpus(dtype: str, most: float) -> None:
    on_cpu, on_gpu = run(_on_both, dtype, {"fused": True}, copy_bytes=COPY_BYTES)
    assert on_gpu["losses"] == pytest.approx(on_cpu["losses"], abs=most)


@pytest.mark.parametrize("option", ["foreach", "fused"])
def test_the_scaler_skips_exactly_where_an_infinity_was_planted(option: str) -> None:
    for told in run(_on_both, "float16", {option: True}, [1, 2], copy_bytes=COPY_BYTES):
        weights = told["weights"]
        assert weights[0] == weights[1] == weights[2] != weights[3]
        assert [scale / 2**16 for scale in told["scales"]] == [1, 0.5, 0.25, 0.25]
        assert told["norms"][1] == told["norms"][2] == float("inf")


def _without_gradients() -> list[float]:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    from tests.cuda.values import Values

    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 32, 16) for _ in range(3))
    with torch.no_grad(), Values():
        on_gpu = scaled_dot_product_attention(q.cuda(), k.cuda(), v.cuda(), is_causal=True).cpu()
    on_cpu = scaled_dot_product_attention(q, k, v, is_causal=True)
    return [(on_gpu - on_cpu).abs().max().item(), on_cpu.abs().max().item()]


def test_attention_without_gradients_has_values_too() -> None:
    error, largest = run(_without_gradients, copy_bytes=COPY_BYTES)
    assert largest > 1
    assert error < 1e-6


def _random() -> list[list[float]]:
    import torch

    from tests.cuda.values import Values

    def draw(device: str) -> list[float]:
        generator = torch.Generator(device).manual_seed(5)
        first = torch.empty(3, device=device).normal_(generator=generator)
        return [*first.tolist(), *torch.rand(2, device=device, generator=generator).tolist()]

    with Values():
        on_gpu = draw("cuda")
    return [draw("cpu"), on_gpu]


def test_random_numbers_are_those_of_the_cpus_generator_of_that_seed() -> None:
    on_cpu, on_gpu = run(_random, copy_bytes=COPY_BYTES)
    assert on_gpu == on_cpu
