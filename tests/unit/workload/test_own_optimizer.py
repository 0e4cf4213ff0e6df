"""The user's own optimizer: over the trainable parameters, or over a model by the names of its parts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch import nn
from torch.optim import SGD

from bench.errors import BenchError
from bench.sweep.fields import OptimizerSpec
from bench.workload.own_optimizer import own_optimizer

TEXT = """
from torch import nn
from torch.optim import SGD

def by_name(model, lr, factor):
    groups = [{"params": [p], "lr": lr * factor} for n, p in model.named_parameters() if n == "0.weight"]
    return SGD([*groups, {"params": [model[0].bias]}], lr=lr)

def several(parameters, lr):
    return [SGD(parameters, lr=lr)]

def of_others(parameters, lr):
    return SGD(nn.Linear(2, 2).parameters(), lr=lr)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"optimizer_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


def model() -> nn.Sequential:
    layers = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    layers[1].requires_grad_(False)
    return layers


def test_class_of_a_package_steps_the_trainable_parameters() -> None:
    spec = OptimizerSpec(factory="torch.optim:SGD", lr=0.5, args={"momentum": 0.9})
    made = own_optimizer(spec, layers := model())
    assert isinstance(made, SGD)
    (group,) = made.param_groups
    assert (group["lr"], group["momentum"]) == (0.5, 0.9)
    assert group["params"] == list(layers[0].parameters())


def test_function_that_asks_for_the_model_gets_it(module: str) -> None:
    spec = OptimizerSpec(factory=f"{module}:by_name", lr=0.5, args={"factor": 10})
    assert [group["lr"] for group in own_optimizer(spec, model()).param_groups] == [5.0, 0.5]


@pytest.mark.parametrize(
    ("function", "words"),
    [("several", "returned list, not a torch.optim.Optimizer"), ("of_others", "does not step the parameters")],
)
def test_what_is_no_optimizer_of_the_model_is_refused(module: str, function: str, words: str) -> None:
    with pytest.raises(BenchError, match=words):
        own_optimizer(OptimizerSpec(factory=f"{module}:{function}"), model())
