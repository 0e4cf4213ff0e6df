"""The loss is a sum over valid targets, in float32 at least."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench.loop import SummedCrossEntropy
from bench.sweep.presets import PRESETS
from bench.workload.build import build_model
from bench.workload.micro_batches import IGNORED_TARGET, MicroBatch


class FixedLogits(nn.Module):
    """Predict token 0 with logit b against zeros, for any input."""

    def __init__(self, vocab_size: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.b = nn.Parameter(torch.zeros((), dtype=dtype))
        self.vocab_size = vocab_size

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return nn.functional.pad(self.b.expand(*inputs.shape, 1), (0, self.vocab_size - 1))


def micro_batch(targets: list[list[int]]) -> MicroBatch:
    tensor = torch.tensor(targets)
    valid = int((tensor != IGNORED_TARGET).sum())
    return MicroBatch(torch.zeros_like(tensor), tensor, len(targets), valid, tensor.numel(), float(valid))


def test_loss_is_the_sum_over_valid_targets() -> None:
    """Each valid target pulls b by half a unit; ignored ones do not."""
    model = FixedLogits(2, torch.float64)
    loss = SummedCrossEntropy()(model, micro_batch([[0, 1, 0, -100], [0, -100, -100, -100]]))
    loss.backward()
    assert loss.item() == pytest.approx(4 * torch.tensor(2.0, dtype=torch.float64).log().item(), rel=1e-14)
    assert model.b.grad is not None
    assert model.b.grad.item() == -0.5 * 3 + 0.5 * 1


def test_nothing_valid_gives_zero_and_zero_gradients() -> None:
    """Not NaN: the mean would be 0/0."""
    model = build_model(PRESETS["gpt2-nano"], seed=0)
    loss = SummedCrossEntropy()(model, micro_batch([[-100]]))
    loss.backward()
    assert loss.item() == 0.0
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


@pytest.mark.parametrize("amp_dtype", [None, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("param_dtype", ["fp32", "bf16"])
def test_loss_is_summed_in_float32_under_every_mode(amp_dtype: torch.dtype | None, param_dtype: str) -> None:
    """A 16-bit sum of 4096 terms of about 5.5 would be off by whole nats, or overflow."""
    model = FixedLogits(257, torch.float32 if param_dtype == "fp32" else torch.bfloat16)
    with torch.autocast("cpu", dtype=amp_dtype, enabled=amp_dtype is not None):
        loss = SummedCrossEntropy()(model, micro_batch([[3] * 4096] * 4))
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(4 * 4096 * torch.tensor(257.0).log().item(), rel=1e-6)


def test_float64_models_keep_their_precision() -> None:
    """The proof of the accumulation runs in float64."""
    model = build_model(PRESETS["gpt2-nano"], seed=0).double()
    assert SummedCrossEntropy()(model, micro_batch([[1, 2]])).dtype == torch.float64


def test_sum_does_not_depend_on_the_cut() -> None:
    """Two rows alone add up to the two together."""
    model = build_model(PRESETS["llama-nano"], seed=0).double()
    rows = [[1, 2, 3, -100], [4, 5, -100, -100]]
    together = SummedCrossEntropy()(model, micro_batch(rows))
    apart = sum(SummedCrossEntropy()(model, micro_batch([row])) for row in rows)
    torch.testing.assert_close(together, apart, rtol=1e-12, atol=0)
