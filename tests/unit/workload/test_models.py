"""The user's own models: built by their function, on the trial's device, or refused with what was expected."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bench.errors import BenchError
from bench.loop import parameters_checksum
from bench.sweep.fields import ModelSpec, TrialConfig
from bench.workload.models import make_model
from bench.workload.outputs import TokenLoss
from bench.workload.user_code import call

MODULE = """
import torch
from torch import nn

def build(width=4):
    return nn.Sequential(nn.Embedding(9, width), nn.Linear(width, 9)).eval()

def nothing():
    return [1]

def frozen():
    return nn.Linear(2, 2).requires_grad_(False)

def wrapped():
    return nn.DataParallel(nn.Linear(2, 2))

def hollow():
    with torch.device("meta"):
        return nn.Linear(2, 2)

def raises():
    raise MemoryError("no room")

number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


def config(module: str, function: str, **settings: object) -> TrialConfig:
    args = settings.pop("args", None)
    return TrialConfig(model=ModelSpec(factory=f"{module}:{function}", args=args), **settings)


def test_weights_depend_on_the_seed_alone_and_the_model_trains(module: str) -> None:
    """Every rank and every launch starts from the same weights, whatever was drawn before."""
    models = [make_model(config(module, "build", seed=seed), "cpu") for seed in (1, 1, 2)]
    sums = [parameters_checksum(model) for model in models]
    assert sums[0] == sums[1] != sums[2]
    assert all(model.training for model in models)


def test_arguments_and_the_type_of_weights_are_those_of_the_trial(module: str) -> None:
    model = make_model(config(module, "build", args={"width": 6}, param_dtype="bf16"), "cpu")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert model[0].weight.shape == (9, 6)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("nothing", "returned list, not a torch.nn.Module"),
        ("frozen", "without a trainable parameter"),
        ("wrapped", "wrapped in DataParallel. Return the bare model"),
        ("hollow", "parameters without values, on the meta device: weight"),
        ("number", "is a int, not a function"),
        ("bild", "has no bild. Did you mean .*:build?"),
    ],
)
def test_what_is_no_model_is_refused_with_what_was_expected(module: str, function: str, words: str) -> None:
    with pytest.raises(BenchError, match=f"model.factory = {module}:{function}.*{words}"):
        make_model(config(module, function), "cpu")


def test_arguments_it_does_not_take_are_named(module: str) -> None:
    with pytest.raises(BenchError, match=r"takes \(width=4\), and is called with \(depth=2\)"):
        make_model(config(module, "build", args={"depth": 2}), "cpu")


def test_what_the_function_raises_is_passed_on_as_it_is(module: str) -> None:
    """Memory that ran out is an outcome of its own, and is told by the error's class."""
    with pytest.raises(MemoryError, match="no room"):
        make_model(config(module, "raises"), "cpu")


def test_function_without_a_signature_is_called_all_the_same() -> None:
    assert call(dict, "it", (), {"a": 1}) == {"a": 1}


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda ids: ids.float().mean(), r"shape \(\), which looks like a loss. Expected: logits \(2, 3, C\)"),
        (lambda ids: torch.zeros(2, 9), r"shape \(2, 9\)\. Expected: logits \(2, 3, C\)"),
        (lambda ids: (ids,), "returned tuple without logits"),
        (lambda ids: {"loss": 1.0}, "returned dict without logits"),
        (lambda ids: torch.zeros(2, 3, 8), "logits have 8 classes, but the data have token ids up to 8"),
    ],
)
def test_output_that_is_no_logits_is_refused_with_what_came(model: object, words: str) -> None:
    ids = torch.ones((2, 3), dtype=torch.int64)
    with pytest.raises(BenchError, match=words):
        TokenLoss(vocab_size=9)(model, (ids, ids))


@pytest.mark.parametrize("wrap", [lambda logits: logits, lambda logits: {"logits": logits}])
def test_logits_count_the_same_by_themselves_or_under_their_name(wrap: object) -> None:
    ids = torch.ones((2, 3), dtype=torch.int64)
    loss = TokenLoss(vocab_size=9)(lambda ids: wrap(torch.zeros(2, 3, 9)), (ids, ids))
    assert loss.item() == pytest.approx(6 * torch.log(torch.tensor(9.0)).item())
