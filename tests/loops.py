"""Run the accumulation loop on small problems and note every update; shared by the tests of one rank and of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bench.loop import (
    AccumulationLoop,
    Agreement,
    GradientSync,
    Precision,
    SummedCrossEntropy,
    UpdateResult,
    WindowCounts,
    windows,
)
from tests.oracle import Batch, Step, flat

CPU = torch.device("cpu")


@dataclass
class Trained:
    """Hold what a run of the loop did."""

    steps: list[Step]
    results: list[UpdateResult]
    loop: AccumulationLoop


def train(
    model: nn.Module,
    micro_batches: Iterable[Any],
    accumulation_steps: int,
    optimizer: torch.optim.Optimizer,
    *,
    loss: SummedCrossEntropy | None = None,
    sync: GradientSync | None = None,
    agreement: Agreement | None = None,
    add_up: Callable[[float], float] = lambda value: value,
    precision: Precision | None = None,
    window_options: dict[str, Any] | None = None,
    **options: Any,
) -> Trained:
    """Train on all windows; `add_up` adds a rank's loss sum over the ranks."""
    loss = loss or SummedCrossEntropy()
    loop = AccumulationLoop(
        sync or GradientSync(model), optimizer, loss, precision or Precision("fp32", "cpu"), CPU, **options
    )
    steps, results = [], []
    parameters = list(model.parameters())
    for window in windows(micro_batches, accumulation_steps, loss.count, agreement=agreement, **(window_options or {})):
        result = loop.run_window(window)
        total = add_up(float(result.loss_sum))
        mean = None if result.plan.is_empty else total / result.plan.all_ranks.units
        gradient = flat([parameter.grad for parameter in parameters], parameters)
        steps.append(Step(mean, gradient, flat(parameters, parameters)))
        results.append(result)
    return Trained(steps, results, loop)


class Bias(nn.Module):
    """One parameter b; the logits of every position are [b, 0], so a valid token adds -1/2 (target 0) or +1/2."""

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.b = nn.Parameter(torch.zeros(1, dtype=dtype))

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.stack([self.b.expand(inputs.shape), torch.zeros(inputs.shape, dtype=self.b.dtype)], dim=-1)


def tokens(zeros: int = 0, ones: int = 0, ignored: int = 0) -> Batch:
    """Make one row with so many targets 0, targets 1 and ignored ones."""
    targets = torch.tensor([[0] * zeros + [1] * ones + [-100] * ignored])
    return torch.zeros_like(targets), targets


def bias_gradients(
    micro_batches: Sequence[Batch], accumulation_steps: int, class_weights: Sequence[float] | None = None
) -> list[float]:
    """Give minus the change of b in each update of SGD with rate 1, from b = 0 each time."""
    model = Bias()
    loss = SummedCrossEntropy(None if class_weights is None else torch.tensor(class_weights, dtype=torch.float64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loop = AccumulationLoop(GradientSync(model), optimizer, loss, Precision("fp32", "cpu"), CPU)
    gradients = []
    for window in windows(micro_batches, accumulation_steps, loss.count):
        model.b.data.zero_()
        loop.run_window(window)
        gradients.append(-model.b.item())
    return gradients


class Bomb(nn.Module):
    """Multiply the output of chosen forwards, counted from 1, by a function whose gradient is infinite."""

    def __init__(self, model: nn.Module, *forwards: int) -> None:
        super().__init__()
        self.model = model
        self.forwards = forwards
        self.seen = 0

    def forward(self, inputs: Tensor) -> Tensor:
        output = self.model(inputs)
        self.seen += 1
        return _InfiniteGradient.apply(output) if self.seen in self.forwards else output


class _InfiniteGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return torch.full_like(gradient, float("inf"))


def count_examples(micro_batch: tuple[Tensor, Tensor]) -> WindowCounts:
    """Count a micro-batch whose unit is the example."""
    rows = micro_batch[0].shape[0]
    return WindowCounts(1, rows, rows, rows, float(rows))
