"""FLOPs of models whose shape is not known: what torch counts, once for each shape of batch."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from bench.rank.counted_flops import MOST_SHAPES, count_flops, shapes_of
from bench.sweep.presets import PRESETS
from bench.workload.build import build_model
from bench.workload.flops import hardware_flops, model_flops

WIDTH = 8


def run(model: nn.Module, batch: dict[str, torch.Tensor]) -> object:
    return model(batch["input_ids"])


def fed(*shapes: tuple[int, int]) -> Counter:
    return Counter(shapes_of({"input_ids": torch.empty(shape, dtype=torch.int64)}) for shape in shapes)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_count_of_a_preset_is_its_formula(checkpointing: bool) -> None:
    """Recomputed ones are hardware FLOPs alone, whatever shapes the batches had, and however often each."""
    shape = PRESETS["llama-tiny"]
    model = build_model(shape, 0, checkpointing)
    shapes = ((2, 5), (3, 7), (3, 7))
    slots, pairs = sum(b * t for b, t in shapes), sum(b * t * t for b, t in shapes)
    expected = model_flops(shape, slots, pairs), hardware_flops(shape, slots, pairs, checkpointing)
    assert count_flops(model, run, fed(*shapes)) == expected
    assert all(parameter.device.type == "cpu" and parameter.grad is None for parameter in model.parameters())


class Frozen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, WIDTH).requires_grad_(False)
        self.body = nn.Linear(WIDTH, WIDTH, bias=False).requires_grad_(False)
        self.head = nn.Linear(WIDTH, 9, bias=False)

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": None, "logits": self.head(self.body(self.table(ids)))}


def test_frozen_layers_cost_no_backward() -> None:
    """Only the head's own gradient: nothing before it needs any."""
    slots = 6
    forward = 2 * slots * (WIDTH * WIDTH + WIDTH * 9)
    assert count_flops(Frozen(), run, fed((2, 3))) == (forward + 2 * slots * WIDTH * 9,) * 2


class Reentrant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.body = nn.Embedding(9, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.body, self.table(ids), use_reentrant=True)


def test_what_a_models_own_checkpoint_repeats_is_no_model_flop() -> None:
    product = 2 * 6 * WIDTH * WIDTH
    assert count_flops(Reentrant(), run, fed((2, 3))) == (3 * product, 4 * product)


class NeedsValues(Frozen):
    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return super().forward(ids[: int(ids.max())])


def test_model_that_needs_values_has_no_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert count_flops(NeedsValues(), run, fed((2, 3))) == (None, None)
    assert "FLOPs were not counted" in capsys.readouterr().err


def test_endlessly_many_shapes_are_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    shapes = fed(*((1, width) for width in range(1, MOST_SHAPES + 2)))
    assert count_flops(Frozen(), run, shapes) == (None, None)
    assert f"{MOST_SHAPES + 1} different shapes" in capsys.readouterr().err
