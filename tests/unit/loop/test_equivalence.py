"""Layers for which accumulation is not a larger batch are named."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.loop import batch_coupled_layers, forward_is_random, random_layers

COUPLED = [
    nn.BatchNorm1d(3),
    nn.BatchNorm2d(3, track_running_stats=False),
    nn.LazyBatchNorm3d(),
    nn.SyncBatchNorm(3),
    nn.InstanceNorm1d(3, track_running_stats=True),
]
RANDOM = [
    nn.Dropout(0.1),
    nn.Dropout2d(0.1),
    nn.AlphaDropout(0.1),
    nn.FeatureAlphaDropout(0.1),
    nn.LSTM(3, 3, num_layers=2, dropout=0.1),
    nn.MultiheadAttention(4, 2, dropout=0.1),
    nn.RReLU(),
]
NEITHER = [
    nn.LayerNorm(3),
    nn.GroupNorm(1, 3),
    nn.InstanceNorm1d(3),
    nn.Dropout(0.0),
    nn.LSTM(3, 3),
    nn.MultiheadAttention(4, 2),
    nn.ReLU(),
]


def name(module: nn.Module) -> str:
    return type(module).__name__


@pytest.mark.parametrize("module", COUPLED, ids=name)
def test_batch_coupled_layer_is_named_while_it_trains(module: nn.Module) -> None:
    """In evaluation mode, such as a frozen BatchNorm, it uses fixed statistics and is not."""
    model = nn.Sequential(nn.Linear(3, 3), module)
    (sentence,) = batch_coupled_layers(model)
    assert sentence.startswith(f"1 ({name(module)}) ")
    module.eval()
    assert batch_coupled_layers(model) == []


@pytest.mark.parametrize("module", RANDOM, ids=name)
def test_random_layer_is_named_while_it_trains(module: nn.Module) -> None:
    """Its numbers are drawn per micro-batch."""
    model = nn.ModuleDict({"block": module})
    (sentence,) = random_layers(model)
    assert sentence.startswith(f"block ({name(module)}) ")
    model.eval()
    assert random_layers(model) == []


@pytest.mark.parametrize("module", NEITHER, ids=name)
def test_other_layers_are_not_named(module: nn.Module) -> None:
    """No false alarm."""
    assert batch_coupled_layers(module) == []
    assert random_layers(module) == []


class Functional(nn.Module):
    """Drops without a layer, and keeps a buffer that every forward changes."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(self.norm(x), self.p)


@pytest.mark.parametrize(("p", "found"), [(0.5, True), (0.0, False)])
def test_functional_dropout_is_found_by_two_forwards(p: float, found: bool) -> None:
    """Without a trace: random generator and buffers are as before."""
    model, x = Functional(p), torch.randn(8, 4)
    state = torch.get_rng_state()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    assert forward_is_random(lambda model, x: model(x).sum(), model, x) is found
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert random_layers(model) == []
