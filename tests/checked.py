"""Models, steps and proofs that the tests of the check share."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.check.exchange.lines import Line
from bench.check.exchange.request import ProofRequest
from bench.check.prove import prove_loop, prove_step
from bench.check.step import make_step
from bench.check.subject import Subject
from bench.loop import SingleRankAgreement
from tests.patience import PATIENCE_S

EXAMPLES = Path(__file__).parents[1] / "examples"
VOCAB = 11


class Net(nn.Module):
    """Embedding, one layer in between, head; every position by itself."""

    def __init__(self, between: nn.Module | None = None, seed: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, 6)
        self.between = between or nn.Tanh()
        self.head = nn.Linear(6, VOCAB)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.between(self.embedding(inputs)))


class OverTokens(nn.Module):
    """Apply a layer that takes (N, C) to (B, T, C)."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(0, 1)).view_as(x)


class Softmaxed(nn.Module):
    """Add a number to all scores of a softmax: its gradient is zero by analysis, and a rounding error in practice."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.full((1,), 0.3))

    def forward(self, x: Tensor) -> Tensor:
        return x * (1 + torch.softmax(x + self.shift, dim=-1))


class WithUntrained(nn.Module):
    """Hold a layer that no output depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.forgotten = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x)


class FunctionalDropout(nn.Module):
    """Drop without a layer that could be seen."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(torch.tanh(x), 0.5)


def subject(between: nn.Module | None = None, **options: Any) -> Subject:
    """Make a subject of a small model."""
    return Subject(Net(between), VOCAB, **options)


def example(name: str) -> Callable[..., Any]:
    """Load the step of a file in examples/."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.step


def checklist_of_step(
    function: Callable[..., Any],
    on: Subject | None = None,
    seconds: float = PATIENCE_S,
    world_size: int = 1,
    rank: int = 0,
) -> dict[str, Line]:
    """Prove a step on one rank of so many; give the lines by name."""
    lines = prove_step(make_step(function), on or subject(), time.monotonic() + seconds, world_size, rank)
    return {line.name: line for line in lines}


def checklist_of_loop(on: Subject | None = None, seconds: float = PATIENCE_S, **settings: Any) -> dict[str, Line]:
    """Prove the loop of bench on one rank; give the lines by name."""
    request = ProofRequest(**settings)
    lines = prove_loop(request, on or subject(), time.monotonic() + seconds, SingleRankAgreement(), None)
    return {line.name: line for line in lines}
