"""Parameters are counted once, twice or not at all, as stated."""

from __future__ import annotations

import torch
from torch import nn

from bench.workload.facts import gradient_dtype, live_gradients, optimizer_tensors, parameter_counts, tensor_bytes


def tied() -> nn.Module:
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 10, bias=False))
    model[1].weight = model[0].weight
    return model


def test_tied_weight_is_unique_once_and_total_twice() -> None:
    """A 10 x 4 table tied to a head is 40 parameters in memory, held by two modules."""
    counts = parameter_counts(tied())
    assert (counts.total, counts.trainable, counts.unique) == (80, 40, 40)
    assert tensor_bytes(tied().parameters()) == 160


def test_frozen_weights_are_not_trainable() -> None:
    """As under LoRA: the total and the trainable count differ."""
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 2, bias=False))
    model[0].requires_grad_(False)
    counts = parameter_counts(model)
    assert (counts.total, counts.trainable, counts.unique) == (24, 8, 24)


def test_buffers_are_not_parameters() -> None:
    """Running statistics are state, not weights."""
    assert parameter_counts(nn.BatchNorm1d(3)).total == 6


def test_gradient_dtype_is_that_of_the_trainable_parameters() -> None:
    """Autocast does not change it; mixed models name every type, and a frozen model none."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).to(torch.bfloat16))
    assert gradient_dtype(model) == "bfloat16+float32"
    model[0].requires_grad_(False)
    assert gradient_dtype(model) == "bfloat16"
    model[1].requires_grad_(False)
    assert gradient_dtype(model) is None


def test_bytes_count_each_tensor_once() -> None:
    """Whatever their types; a tensor named twice is still one."""
    half, byte = torch.zeros(3, dtype=torch.float16), torch.zeros(5, dtype=torch.uint8)
    assert tensor_bytes([half, byte, half]) == 11
    assert tensor_bytes([]) == 0


def test_gradients_and_optimizer_tensors_are_those_that_are_alive() -> None:
    """None before an update; after one, a gradient a parameter, and two moments and a step count each."""
    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    assert (live_gradients(model), optimizer_tensors(optimizer)) == ([], [])
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert [gradient.shape for gradient in live_gradients(model)] == [(2, 3), (2,)]
    assert len(optimizer_tensors(optimizer)) == 6
