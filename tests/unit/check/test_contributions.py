"""The weight of each sequence, found in a gradient."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bench.check.contributions import contributions
from bench.check.oracle import set_concatenated_gradients, units_of
from tests.checked import Net
from tests.loops import Bias, tokens
from tests.oracle import Batch, random_batch

WINDOWS = [[random_batch(1, 5, 1), random_batch(1, 2, 2)], [random_batch(1, 7, 3)]]
FLAT = [batch for window in WINDOWS for batch in window]


def weighted_gradient(model: torch.nn.Module, weights: Sequence[float]) -> list[Tensor]:
    """Add up the sequences' own gradients, each weighted relative to what is right in its window."""
    total = [torch.zeros_like(parameter) for parameter in model.parameters()]
    owners = [window for window in WINDOWS for _ in window]
    for weight, batch, window in zip(weights, FLAT, owners, strict=True):
        set_concatenated_gradients(model, [batch])
        share = weight * units_of([batch]) / units_of(window)
        for entry, parameter in zip(total, model.parameters(), strict=True):
            assert parameter.grad is not None
            entry += share * parameter.grad
    return total


@given(st.lists(st.sampled_from([0.0, 0.25, 1.0, 2.0, -1.0]), min_size=3, max_size=3))
def test_weights_that_were_put_in_are_found(weights: list[float]) -> None:
    """Left out, too light, right, twice, and with the wrong sign."""
    model = Net().double()
    found = contributions(model, weighted_gradient(model, weights), WINDOWS, None)
    assert found == pytest.approx(weights, abs=1e-9)


def test_too_few_parameters_cannot_tell_sequences_apart() -> None:
    """One parameter has one equation; no guess is made."""
    model = Bias()
    windows: list[list[Batch]] = [[tokens(zeros=2), tokens(ones=3)]]
    assert contributions(model, [torch.ones(1, dtype=torch.float64)], windows, None) is None
