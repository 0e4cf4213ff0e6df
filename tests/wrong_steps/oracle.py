"""Decide whether a step is a right one: random layouts of its data against one concatenated batch per window.

Imports nothing of `bench`. Compares the parameters and the rate after every call, over two passes.
"""

from __future__ import annotations

import functools
import inspect
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.wrong_steps.ranks import on_ranks

LAYOUTS = 200
TOLERANCE = 1e-10
IGNORED = -100
CLASSES = 7
PASSES = 2

Batch = tuple[Tensor, Tensor]
Load = Callable[[Any], Callable[..., Any]]
"""Makes the step, given what stands for `torch.distributed`."""


class Model(nn.Module):
    """Tell classes from a token and the mean of those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CLASSES, 5)
        self.middle = nn.Linear(5, 5)
        self.head = nn.Linear(5, CLASSES)
        generator = torch.Generator().manual_seed(11)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.6)

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.embedding(inputs)
        places = torch.arange(1, inputs.shape[1] + 1, dtype=x.dtype)[:, None]
        return self.head(torch.tanh(self.middle(x + x.cumsum(1) / places)))


@dataclass(frozen=True)
class Layout:
    """State one data set, its cut and its optimizer; every window of it has a target."""

    windows: list[list[Batch]]
    """Micro-batches of each window; with two ranks, every second is the other's."""
    accumulation_steps: int
    """On each rank."""
    world_size: int
    optimizer: str
    clip_norm: float
    is_scheduled: bool

    def of_rank(self, rank: int) -> list[list[Batch]]:
        """Give one rank's part of each window, as tensors of its own."""
        parts = [window[rank :: self.world_size] for window in self.windows]
        return [[(inputs.clone(), targets.clone()) for inputs, targets in part] for part in parts]


@functools.cache
def draw(number: int, world_size: int) -> Layout:
    """Draw a layout: lengths, what is masked, accumulation steps, optimizer, clip and schedule."""
    chance = random.Random(number)
    steps = chance.choice((1, 2, 2, 3))
    count = chance.randint(1, steps + 2) * world_size - chance.randint(0, world_size - 1)
    generator = torch.Generator().manual_seed(number)
    batches = [_batch(chance, generator) for _ in range(count)]
    size = steps * world_size
    windows = [batches[start : start + size] for start in range(0, count, size)]
    for window in windows:
        if all(bool((targets == IGNORED).all()) for _, targets in window):
            window[-1][1][0, 0] = chance.randrange(CLASSES)
    clip_norm = chance.choice((math.inf, 0.1, 0.4))
    return Layout(windows, steps, world_size, chance.choice(("sgd", "adamw")), clip_norm, chance.random() < 0.7)


def _batch(chance: random.Random, generator: torch.Generator) -> Batch:
    lengths = [chance.randint(1, 9) for _ in range(chance.choice((1, 1, 2, 3)))]
    shape = (len(lengths), max(lengths))
    inputs = torch.randint(0, CLASSES, shape, generator=generator)
    targets = torch.randint(0, CLASSES, shape, generator=generator)
    is_masked_whole = chance.random() < 0.2
    for row, length in enumerate(lengths):
        inputs[row, length:], targets[row, length:] = 0, IGNORED
        if is_masked_whole or chance.random() < 0.15:
            targets[row] = IGNORED
        elif chance.random() < 0.5:
            targets[row, : chance.randint(0, length - 1)] = IGNORED
    return inputs, targets


@dataclass
class Training:
    """Hold a model in float64 with what trains it."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LambdaLR

    @classmethod
    def of(cls, layout: Layout) -> Training:
        """Make a fresh one."""
        model = Model().double()
        if layout.optimizer == "sgd":
            optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.8, weight_decay=0.05)
        else:
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.05, eps=1e-4)
        factor = (lambda n: min(1.0, (n + 1) / 6)) if layout.is_scheduled else (lambda n: 1.0)
        return cls(model, optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, factor))

    def state(self) -> Tensor:
        """Lay parameters and rate end to end."""
        rate = torch.tensor([self.optimizer.param_groups[0]["lr"]], dtype=torch.float64)
        return torch.cat([*(parameter.detach().flatten() for parameter in self.model.parameters()), rate])


@functools.cache
def reference(number: int, world_size: int, takes: tuple[str, ...]) -> list[Tensor]:
    """Train on one concatenated batch per window of a layout; give the state after each."""
    layout = draw(number, world_size)
    right = Training.of(layout)
    states = []
    for _ in range(PASSES):
        for window in layout.windows:
            longest = max(targets.shape[1] for _, targets in window)
            wide = [(0, longest - targets.shape[1]) for _, targets in window]
            inputs = torch.cat([functional.pad(x, by) for (x, _), by in zip(window, wide, strict=True)])
            targets = torch.cat([functional.pad(y, by, value=IGNORED) for (_, y), by in zip(window, wide, strict=True)])
            right.optimizer.zero_grad()
            functional.cross_entropy(right.model(inputs).flatten(0, 1), targets.flatten()).backward()
            if "clip_norm" in takes:
                nn.utils.clip_grad_norm_(right.model.parameters(), layout.clip_norm)
            right.optimizer.step()
            if "schedule" in takes:
                right.schedule.step()
            states.append(right.state())
    return states


class Differs(Exception):
    """Say that a step left the way of the concatenated batch."""


def is_right(load: Load, world_sizes: Sequence[int], layouts: int = LAYOUTS) -> bool:
    """Tell whether a step trains as the concatenated batch on every layout; what raises is not right."""
    for number in range(layouts):
        size = world_sizes[number % len(world_sizes)]
        try:
            on_ranks(size, lambda rank, dist, number=number, size=size: _follow(load(dist), number, size, rank))
        except Exception:
            return False
    return True


def _follow(step: Callable[..., Any], number: int, world_size: int, rank: int) -> None:
    takes = inspect.signature(step).parameters
    layout = draw(number, world_size)
    states = reference(number, world_size, tuple(sorted({"clip_norm", "schedule"}.intersection(takes))))
    mine = Training.of(layout)
    options: dict[str, Any] = {}
    if "clip_norm" in takes:
        options["clip_norm"] = layout.clip_norm
    if "schedule" in takes:
        options["schedule"] = mine.schedule
    per_pass = len(layout.windows)
    for number in range(PASSES):
        due = states[number * per_pass : (number + 1) * per_pass]
        if "accumulation_steps" in takes:
            data = [batch for window in layout.of_rank(rank) for batch in window]
            step(mine.model, mine.optimizer, data, accumulation_steps=layout.accumulation_steps, **options)
            _compare(mine.state(), due[-1])
            continue
        for window, right in zip(layout.of_rank(rank), due, strict=True):
            step(mine.model, mine.optimizer, window, **options)
            _compare(mine.state(), right)


def _compare(mine: Tensor, right: Tensor) -> None:
    if not bool(((mine - right).abs() <= TOLERANCE).all()):
        raise Differs
