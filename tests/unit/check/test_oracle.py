"""The concatenated batch itself: against torch's own mean loss, and against hand-made numbers."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from bench.check.oracle import concatenate, concatenated_loss, rows_of, set_concatenated_gradients, units_of
from tests.checked import VOCAB, Net
from tests.loops import Bias, tokens
from tests.oracle import random_batch

BATCHES = [random_batch(2, 5, 1, 0.3), random_batch(1, 9, 2, 0.3), random_batch(3, 2, 3)]


@pytest.mark.parametrize("weighted", [False, True])
def test_loss_is_torchs_mean_over_all_targets(weighted: bool) -> None:
    """Another way to the same number, class weights not exact in float32 included."""
    model = Net().double()
    weights = torch.linspace(0.1, 3.0, VOCAB, dtype=torch.float64) if weighted else None
    inputs, targets = concatenate(BATCHES)
    right = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), weight=weights)
    assert concatenated_loss(model, BATCHES, weights).item() == pytest.approx(right.item(), rel=1e-14)


def test_gradient_of_unequal_micro_batches_is_the_hand_made_one() -> None:
    """10 tokens of target 0 and 100 of target 1: (100 - 10) / 2 / 110; weights 1 and 4: (400 - 10) / 2 / 410."""
    model = Bias()
    batches = [tokens(zeros=10), tokens(ones=100, ignored=7)]
    set_concatenated_gradients(model, batches)
    assert model.b.grad is not None
    assert model.b.grad.item() == pytest.approx(90 / 220, rel=1e-15)
    set_concatenated_gradients(model, batches, torch.tensor([1.0, 4.0]))
    assert model.b.grad.item() == pytest.approx(390 / 820, rel=1e-15)


def test_padding_is_cut_off_and_ignored_targets_inside_a_row_are_kept() -> None:
    """A row ends at its last valid target."""
    inputs = torch.tensor([[5, 6, 7, 0, 0]])
    targets = torch.tensor([[-100, 7, 8, -100, -100]])
    ((row_inputs, row_targets),) = rows_of([(inputs, targets)])
    assert row_inputs.tolist() == [[5, 6, 7]]
    assert row_targets.tolist() == [[-100, 7, 8]]
    assert units_of([(inputs, targets)]) == 2.0
