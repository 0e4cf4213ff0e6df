"""The proof on data and losses of the user's own: right ones pass, and what is wrong with others is said."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.check.exchange.lines import Line, overall
from bench.check.exchange.request import ProofRequest, request_of
from bench.check.prove import prove
from bench.sweep.fields import TrialConfig
from bench.sweep.trial import resolve

TEXT = """
import torch
from torch import nn
from torch.nn import functional

class Model(nn.Module):
    def __init__(self, norm=False, dropout=0.0):
        super().__init__()
        self.body = nn.Linear(4, 6)
        self.norm = nn.BatchNorm1d(6) if norm else nn.Identity()
        self.drop = dropout
        self.head = nn.Linear(6, 3)
    def forward(self, x):
        hidden = functional.dropout(self.norm(torch.tanh(self.body(x))), self.drop, True)
        return self.head(hidden)

class Unused(Model):
    def __init__(self):
        super().__init__()
        self.extra = nn.Linear(2, 2)

def data(seq_len, seed, samples=9):
    made = torch.Generator().manual_seed(seed)
    return [{"x": torch.randn(4, generator=made), "labels": torch.tensor(n % 3)} for n in range(samples)]

class Weighted:
    unit = "weight"
    def __init__(self, reduction="sum", follow=True, plain=False):
        self.weights, self.reduction = torch.tensor([1.0, 2.0, 5.0]), reduction
        self.follow, self.plain = follow, plain
    def __call__(self, outputs, batch):
        weights = self.weights.to(outputs) if self.follow else self.weights
        return functional.cross_entropy(outputs, batch["labels"], weights, reduction=self.reduction)
    def units(self, batch):
        return len(batch["labels"]) if self.plain else float(self.weights[batch["labels"]].double().sum())
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"proved_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield name
    sys.modules.pop(name, None)


def request(module: str, model: str = "Model", loss: str | None = "Weighted", **settings: Any) -> ProofRequest:
    """Ask for the proof of a trial with own model, data and loss."""
    config: dict[str, Any] = {
        "device": "cpu",
        "model": {"factory": f"{module}:{model}", "args": settings.pop("model_args", None)},
        "data": {"factory": f"{module}:data", "args": settings.pop("data_args", None)},
        "loss": {"factory": loss and f"{module}:{loss}", "args": settings.pop("loss_args", None)},
        "global_batch_size": 4,
    }
    return request_of(resolve(TrialConfig.model_validate(config | settings), "cpu"), 60.0)


def lines_of(asked: ProofRequest) -> dict[str, Line]:
    return {line.name: line for line in prove(asked)}


@pytest.mark.parametrize("loss", ["Weighted", None])
@pytest.mark.parametrize("window_mode", ["buffered", "streamed"])
@pytest.mark.parametrize("amp_mode", ["fp32", "bf16"])
def test_right_losses_are_proved(module: str, loss: str | None, window_mode: str, amp_mode: str) -> None:
    """In float64, and in the configured precision."""
    lines = lines_of(request(module, loss=loss, window_mode=window_mode, amp_mode=amp_mode))
    assert overall(lines.values()) == "PASS", lines
    assert lines["weighting"].figure < 1e-12
    assert {"examples", "update", "precision", "parameters", "layers"} <= set(lines)


@pytest.mark.parametrize(
    ("loss_args", "words"),
    [({"reduction": "mean"}, "the mean of theirs"), ({"plain": True}, "")],
    ids=["mean", "sum of weights counted as examples"],
)
def test_denominators_that_do_not_fit_the_loss(module: str, loss_args: dict[str, Any], words: str) -> None:
    """A mean makes a wrong gradient. A sum with another denominator is another loss, and the same however cut."""
    line = lines_of(request(module, loss_args=loss_args))["weighting"]
    assert (line.verdict == "FAIL") == (loss_args == {"reduction": "mean"})
    assert words in line.words


def test_batchnorm_is_named_and_equality_not_claimed(module: str) -> None:
    lines = lines_of(request(module, model_args={"norm": True}))
    assert (lines["weighting"].verdict, lines["layers"].verdict) == ("PASS", "NOT PROVEN")
    assert "norm (BatchNorm1d)" in lines["layers"].words


def test_random_forward_proves_nothing(module: str) -> None:
    """Functional dropout, which no layer shows."""
    lines = lines_of(request(module, model_args={"dropout": 0.5}))
    assert overall(lines.values()) == "NOT PROVEN"


def test_parameters_that_the_loss_does_not_depend_on_are_named(module: str) -> None:
    line = lines_of(request(module, model="Unused"))["parameters"]
    assert line.verdict == "FAIL"
    assert "extra.weight, extra.bias" in line.words


@pytest.mark.parametrize(
    ("settings", "verdict", "words"),
    [
        ({"loss_args": {"follow": False}}, "NOT PROVEN", "does not run in float64"),
        ({"model": "nothing"}, "FAIL", "has no nothing"),
        ({"loss": "Model"}, "FAIL", "it has no method units"),
        ({"data_args": {"samples": 0}}, "FAIL", "returned no sample"),
    ],
)
def test_what_cannot_run_is_one_line(module: str, settings: dict[str, Any], verdict: str, words: str) -> None:
    lines = lines_of(request(module, **settings))
    assert list(lines) == ["runs"]
    assert (lines["runs"].verdict, words in lines["runs"].words) == (verdict, True), lines["runs"].words


def test_changed_code_and_other_arguments_are_other_proofs(module: str, tmp_path: Path) -> None:
    """A kept proof is none of code that was edited since; the micro-batch size does not matter."""
    keys = [request(module, **settings).key() for settings in ({}, {"micro_batch_size": 2}, {"seq_len": 7})]
    assert keys[0] == keys[1] != keys[2]
    (tmp_path / f"{module}.py").write_text(f"{TEXT}# edited\n")
    assert request(module).key() != keys[0]
