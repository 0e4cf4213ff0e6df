"""A training step as the proof calls it: ours, or the user's own through a small protocol.

A step is a function that trains a model in place and names what it can do by its parameters:

    def step(model, optimizer, micro_batches): ...                          one window, called once per window
    def step(model, optimizer, micro_batches, accumulation_steps): ...      all windows of a data set, called once

`micro_batches` is a list of pairs (inputs (B, T) int64, targets (B, T) int64), -100 ignored. A step that also names
`clip_norm` is to clip, and one that names `schedule` is to step it; infinity does not clip.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from bench.check.oracle import Batch
from bench.errors import BenchError

_REQUIRED = ("model", "optimizer", "micro_batches")
_OPTIONAL = ("accumulation_steps", "clip_norm", "schedule")


Around = Callable[[int, int, list[Batch]], AbstractContextManager[list[Batch]]]


@contextmanager
def _as_they_are(_: int, __: int, micro_batches: list[Batch]) -> Iterator[list[Batch]]:
    yield list(micro_batches)


@dataclass(frozen=True)
class Step:
    """Hold a training step and what it takes."""

    function: Callable[..., Any]
    takes: frozenset[str]
    """Which of accumulation_steps, clip_norm and schedule it names."""

    @property
    def takes_all(self) -> bool:
        """Tell whether one call trains on all windows of a data set."""
        return "accumulation_steps" in self.takes

    def train(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        micro_batches: list[Batch],
        accumulation_steps: int,
        clip_norm: float = math.inf,
        schedule: LRScheduler | None = None,
        passes: int = 1,
        windows: int | None = None,
        around: Around = _as_they_are,
    ) -> None:
        """Train on a whole data set, by one call for each pass or by one call per window.

        Args:
            model: Trained in place.
            optimizer: Of its parameters.
            micro_batches: Of this rank.
            accumulation_steps: On this rank.
            clip_norm: What the gradient is clipped to.
            schedule: What is stepped once per update.
            passes: Times that the data set is trained on.
            windows: Of one pass, over all ranks; null where there is one rank.
            around: Given (first window, windows, micro-batches), gives a context whose value is handed to the step.

        Raises:
            BenchError: The step is one that a call does not run.
        """
        options: dict[str, Any] = {}
        if "clip_norm" in self.takes:
            options["clip_norm"] = clip_norm
        if "schedule" in self.takes:
            options["schedule"] = schedule
        if self.takes_all:
            options["accumulation_steps"] = accumulation_steps
        per_pass = -(-len(micro_batches) // accumulation_steps) if windows is None else windows
        for number in range(passes):
            first = number * per_pass
            calls = [(first, per_pass, micro_batches)] if self.takes_all else []
            for window in range(0 if self.takes_all else per_pass):
                start = window * accumulation_steps
                calls.append((first + window, 1, micro_batches[start : start + accumulation_steps]))
            for begin, count, batches in calls:
                with around(begin, count, batches) as handed:
                    _refuse_unstarted(self.function(model, optimizer, handed, **options))


def _refuse_unstarted(result: object) -> None:
    """Refuse what a call only made: a generator or a coroutine of which no line has run.

    Raises:
        BenchError: Nothing of the step has run.
    """
    if inspect.isgenerator(result) and inspect.getgeneratorstate(result) == inspect.GEN_CREATED:
        raise BenchError(
            "the step never ran: it yields, so a call only makes a generator. Take the yield out, or wrap it in a step "
            "that runs it to its end."
        )
    if inspect.iscoroutine(result) and inspect.getcoroutinestate(result) == inspect.CORO_CREATED:
        result.close()
        raise BenchError(
            "the step never ran: it is async, so a call only makes a coroutine. Name a step that runs it, as "
            "asyncio.run does."
        )
    if inspect.isasyncgen(result):
        raise BenchError(
            "the step never ran: it is async and yields, so a call only makes a generator. Name a step that runs it."
        )


def make_step(function: Callable[..., Any], name: str = "the step") -> Step:
    """Read from a function's parameters how it is to be called.

    Raises:
        BenchError: It cannot be called as a step.
    """
    if not callable(function):
        raise BenchError(f"{name} is a {type(function).__name__}, not a function.")
    parameters = inspect.signature(function).parameters.values()
    named = [p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]
    takes = frozenset(_OPTIONAL).intersection(named)
    unknown = [
        p.name
        for position, p in enumerate(parameters)
        if position >= len(_REQUIRED)
        and p.default is inspect.Parameter.empty
        and p.name not in _OPTIONAL
        and p.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    ]
    if len(named) < len(_REQUIRED) or unknown:
        raise BenchError(
            f"{name} takes ({', '.join(named)}). It must take (model, optimizer, micro_batches), then any of "
            f"{', '.join(_OPTIONAL)}."
        )
    return Step(function, takes)
