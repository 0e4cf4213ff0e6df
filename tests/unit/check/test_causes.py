"""What a wrong gradient is made of: the weight of each sequence, and what is no sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from bench.check.causes import Cause, explain
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
    found = explain(model, weighted_gradient(model, weights), WINDOWS, WINDOWS[0], None)
    assert found.is_exact
    assert found.shares == pytest.approx(weights, abs=1e-9)


def test_too_few_parameters_cannot_tell_sequences_apart() -> None:
    """One parameter has one equation; no guess is made."""
    model = Bias()
    windows: list[list[Batch]] = [[tokens(zeros=2), tokens(ones=3)]]
    assert explain(model, [torch.ones(1, dtype=torch.float64)], windows, windows[0], None) == Cause("")


def of_loss(make: Callable[[torch.nn.Module], Tensor]) -> tuple[torch.nn.Module, list[Tensor]]:
    """Give a model with the gradient of a loss of it."""
    model = Net().double()
    return model, list(torch.autograd.grad(make(model), list(model.parameters())))


def summed(model: torch.nn.Module, batches: Sequence[Batch], **options: Any) -> Tensor:
    """Give the loss of a window, as a mean over its targets."""
    losses = [
        functional.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum", **options) for x, y in batches
    ]
    return torch.stack(losses).sum() / units_of(batches)


MASKED = [[random_batch(1, 5, 1, 0.3), random_batch(1, 6, 2, 0.3)], [random_batch(1, 7, 3)]]

MADE_OF = {
    "a penalty on the weights": lambda model: (
        summed(model, MASKED[0]) + 0.05 * sum(each.square().sum() for each in model.parameters())
    ),
    "labels are smoothed": lambda model: summed(model, MASKED[0], label_smoothing=0.1),
    "ignored targets are trained on": lambda model: summed(model, [(x, y.clamp(min=0)) for x, y in MASKED[0]]),
    "labels are shifted twice": lambda model: (
        sum(
            functional.cross_entropy(model(x)[:, :-1].flatten(0, 1), y[:, 1:].flatten(), reduction="sum")
            for x, y in MASKED[0]
        )
        / 7
    ),
}


@pytest.mark.parametrize("words", MADE_OF)
def test_what_is_no_sequence_is_named(words: str) -> None:
    """By solving, so that it is said only where it explains the gradient wholly; nothing is said of sequences."""
    model, gradient = of_loss(MADE_OF[words])
    found = explain(model, gradient, MASKED, MASKED[0], None)
    assert found.words.startswith(words)
    assert found.is_exact
    assert found.shares is None


def test_gradient_that_was_left_is_named_with_its_amount() -> None:
    """That of the update before, at parameters of its own."""
    model = Net().double()
    left = weighted_gradient(Net(seed=8).double(), [1.0, 1.0, 0.0])
    gradient = [mine + its for mine, its in zip(weighted_gradient(model, [0.0, 0.0, 1.0]), left, strict=True)]
    found = explain(model, gradient, WINDOWS, WINDOWS[1], None, left=left)
    assert found.has_left
    assert "1.00 times" in found.words
    assert found.shares == pytest.approx([0.0, 0.0, 1.0], abs=1e-9)


def test_changed_data_are_named_where_the_gradient_is_theirs() -> None:
    """Where it is not, that they were changed is said, and where the gradient differs."""
    model = Net().double()
    changed = [(torch.zeros_like(inputs), targets) for inputs, targets in WINDOWS[0]]
    gradient = list(torch.autograd.grad(summed(model, changed), list(model.parameters())))
    found = explain(model, gradient, WINDOWS, WINDOWS[0], None, changed=changed)
    assert found == Cause("the step changes its inputs in place and trains on what it made of them", is_exact=True)
    found = explain(model, [entry.sign() for entry in gradient], WINDOWS, WINDOWS[0], None, changed=changed)
    assert "does not explain all of it; it differs most in" in found.words


def test_what_is_not_known_is_only_measured() -> None:
    """No untrue reason: parameters are named instead."""
    model = Net().double()
    gradient = [entry.sign() for entry in weighted_gradient(model, [1.0, 1.0, 0.0])]
    found = explain(model, gradient, WINDOWS, WINDOWS[0], None)
    assert found.shares is None
    assert (
        "no weighting of the sequences gives this gradient; it differs most in head.weight, embedding.weight"
        in found.words
    )


def test_gradient_that_is_no_number_is_named() -> None:
    """No equations are made of it."""
    model = Net().double()
    gradient = weighted_gradient(model, [1.0, 1.0, 0.0])
    gradient[1] = gradient[1] * torch.nan
    assert explain(model, gradient, WINDOWS, WINDOWS[0], None).words == "the gradient of head.weight is not a number"
