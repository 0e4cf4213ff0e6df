"""Losses of named tensors: summed over units, counted from the batch alone, refused with what was expected."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from bench.errors import BenchError
from bench.workload.batch_loss import BatchLoss, CrossEntropyOfLabels, Names, OwnLoss, make_loss, mean_words
from bench.workload.samples import SampleBatch


class Own:
    unit = "example"

    def __init__(self, returns: Any = None, counts: Any = 2.0) -> None:
        self.returns, self.counts = returns, counts

    def __call__(self, outputs: Any, batch: Any) -> Any:
        return outputs.sum() if self.returns is None else self.returns(outputs)

    def units(self, batch: Any) -> Any:
        return self.counts


def batch(**tensors: torch.Tensor) -> SampleBatch:
    return SampleBatch(tensors, 2, 0, 0, 2.0)


@pytest.mark.parametrize(
    ("labels", "unit", "units"),
    [([1, -100, 0], "example", 2), ([[1, 0], [-100, -100]], "token", 2), ([[-100]], "token", 0)],
)
def test_labels_count_as_examples_or_as_tokens(labels: list[Any], unit: str, units: int) -> None:
    """Of one dimension or of two; ignored ones count nothing."""
    loss, targets = CrossEntropyOfLabels(), torch.tensor(labels)
    assert (loss.units({"labels": targets}), loss.unit) == (units, unit)
    summed = loss(torch.zeros(*targets.shape, 4), {"labels": targets})
    assert summed.item() == pytest.approx(units * torch.log(torch.tensor(4.0)).item())


@pytest.mark.parametrize("labels", [None, torch.zeros(2), torch.zeros(2, 2, 2, dtype=torch.int64)])
def test_batch_without_labels_needs_a_loss_of_its_own(labels: torch.Tensor | None) -> None:
    with pytest.raises(BenchError, match=r"the batch needs labels.*name a loss of your own"):
        CrossEntropyOfLabels().units({} if labels is None else {"labels": labels})


@pytest.mark.parametrize(
    ("returns", "words"),
    [
        (lambda outputs: outputs, r"the loss returned a tensor torch.float32 of shape \(2,\)"),
        (lambda outputs: outputs.sum().item(), "the loss returned 2.0. Expected: one number"),
        (lambda outputs: outputs.detach().sum(), "the loss is cut off from the model"),
        (lambda outputs: torch.tensor(1), "the loss returned a tensor torch.int64"),
    ],
)
def test_loss_that_is_no_number_of_the_graph_is_refused(returns: Any, words: str) -> None:
    with pytest.raises(BenchError, match=f"it: {words}"):
        OwnLoss(Own(returns), "it")(torch.ones(2, requires_grad=True), {})


@pytest.mark.parametrize("counts", [-1, float("nan"), float("inf"), "two", None, 1.5, torch.ones(2)])
def test_units_that_are_no_count_are_refused(counts: Any) -> None:
    with pytest.raises(BenchError, match=r"units\(batch\) returned .* whole since it counts examples"):
        OwnLoss(Own(counts=counts), "it").units({})


def test_weights_may_be_fractions_and_a_tensor() -> None:
    own = Own(counts=torch.tensor(1.5))
    own.unit = "weight"
    assert OwnLoss(own, "it").units({}) == 1.5


@pytest.mark.parametrize(
    ("made", "words"),
    [(3, "it cannot be called, it has no method units, its unit is None"), (nn.MSELoss(), "no method units")],
)
def test_what_is_no_loss_is_refused_with_the_contract(made: Any, words: str) -> None:
    with pytest.raises(BenchError, match=f"{words}.*Expected: a callable loss"):
        OwnLoss(made, "it")


def test_loss_is_made_by_its_class_with_its_arguments() -> None:
    with pytest.raises(BenchError, match=r"loss.factory = torch.nn:MSELoss returned MSELoss"):
        make_loss("torch.nn:MSELoss", {"reduction": "sum"})
    assert isinstance(make_loss(None, None), CrossEntropyOfLabels)


class Takes(nn.Module):
    def forward(self, pixels: Any, mask: Any = None) -> Any:
        return pixels, mask


class TakesAll(nn.Module):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return sorted(kwargs)


class TakesLabels(nn.Module):
    def forward(self, input_ids: Any, labels: Any = None, **kwargs: Any) -> Any:
        return input_ids, labels, kwargs


def test_model_gets_what_its_forward_names_and_never_the_labels() -> None:
    one = torch.ones(1)
    assert Names(Takes()).given({"pixels": one, "labels": one, "other": one}) == {"pixels": one}
    assert sorted(Names(TakesAll()).given({"a": one, "b": one, "labels": one})) == ["a", "b"]
    assert Names(TakesLabels()).given({"input_ids": one, "labels": one, "n": one}) == {"input_ids": one}


def test_batch_that_does_not_fit_the_forward_is_refused_with_both() -> None:
    with pytest.raises(BenchError, match=r"Takes.forward needs pixels, and the batch has x, labels"):
        Names(Takes()).given({"x": torch.ones(1), "labels": torch.ones(1)})


def test_tokens_go_to_any_model_by_position() -> None:
    """Whatever it calls its argument."""
    ids = torch.ones((1, 2))
    run = BatchLoss(OwnLoss(Own(), "it"), nn.Identity(), are_tokens=True)
    assert run.outputs(lambda given: given, {"input_ids": ids, "labels": ids}) is ids


@pytest.mark.parametrize(("reduce", "is_mean"), [(torch.sum, False), (torch.mean, True)])
def test_mean_is_told_from_a_sum(reduce: Any, is_mean: bool) -> None:
    loss = Own(lambda outputs: reduce(outputs), counts=1.0)
    parts = [{"x": torch.tensor([3.0])}, {"x": torch.tensor([4.0])}]
    words = mean_words(loss, lambda part: part["x"], parts, {"x": torch.tensor([3.0, 4.0])})
    assert ("reduction='sum'" in words) == is_mean
