"""Units of the ready losses."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.loop import SummedCrossEntropy, WindowCounts, count_valid, sum_target_weights

TARGETS = st.lists(st.sampled_from([-100, 0, 1, 2]), min_size=1, max_size=30)


@given(TARGETS)
def test_units_are_what_torch_divides_its_means_by(targets: list[int]) -> None:
    """Sum / units = torch's own mean, weighted or not, wherever there is a unit."""
    logits = torch.randn(len(targets), 3, dtype=torch.float64)
    labels = torch.tensor(targets)
    for weights in (None, torch.tensor([0.5, 3.0, 0.0])):
        loss = SummedCrossEntropy(weights)
        counts = loss.count((logits, labels))
        total = loss(torch.nn.Identity(), (logits, labels))
        double = None if weights is None else weights.double()
        mean = torch.nn.functional.cross_entropy(logits, labels, weight=double)
        if counts.units:
            assert float(total) / counts.units == pytest.approx(float(mean), rel=1e-12)
        else:
            assert float(total) == 0.0


@given(TARGETS)
def test_valid_targets_are_counted_exactly(targets: list[int]) -> None:
    """Ignored ones are left out; another ignore index is respected."""
    labels = torch.tensor(targets)
    assert count_valid(labels) == sum(target != -100 for target in targets)
    assert count_valid(labels, ignore_index=1) == sum(target != 1 for target in targets)


def test_a_weight_sum_of_16_bit_weights_is_exact() -> None:
    """Weights are added in float64: 2**11 + 1 ones do not stick at 2048."""
    targets = torch.zeros(2049, dtype=torch.int64)
    assert sum_target_weights(targets, torch.ones(2, dtype=torch.float16)) == 2049.0


def test_counts_of_a_language_model_batch() -> None:
    """Sequences, valid tokens, slots and units."""
    targets = torch.tensor([[1, 2, -100], [3, -100, -100]])
    assert SummedCrossEntropy().count((targets, targets)) == WindowCounts(1, 2, 3, 6, 3.0)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_weights_that_are_no_weights_are_refused(bad: float) -> None:
    """A negative weight could make the denominator 0 or worse."""
    with pytest.raises(ValueError, match="class_weights"):
        SummedCrossEntropy(torch.tensor([1.0, bad]))


def test_loss_of_16_bit_logits_is_summed_in_float32() -> None:
    """65504 is the largest float16; a sum of many tokens is beyond it."""
    logits = torch.zeros(200_000, 2, dtype=torch.float16)
    total = SummedCrossEntropy()(torch.nn.Identity(), (logits, torch.zeros(200_000, dtype=torch.int64)))
    assert total.dtype == torch.float32
    assert float(total) == pytest.approx(200_000 * 0.6931472, rel=1e-4)
