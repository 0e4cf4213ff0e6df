"""The parts of a launch, in order: first update, memory pass, warm-up, timed part, on to the quality update.

All are real updates of one trajectory, numbered from 0 at the initial weights; they differ in what is observed. The
validation loss is taken at the parameters that update `quality_updates` starts from, as the training loss of that
update is, and between two parts. Where that update would fall inside the warm-up or the timed part, the updates up to
it run before the warm-up, which then runs whole: nothing is evaluated inside the timed part or shortly before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from bench.errors import BenchError
from bench.measure.device import MemoryPass, Witness
from bench.measure.profiler import Part, PartName
from bench.measure.reductions import Reductions
from bench.run.quality import validation_loss
from bench.run.workbench import Workbench

MEMORY_UPDATES = 3
"""Updates of the memory pass; the optimizer's state exists from its start, and one window has only full rows."""

_FIRST_UPDATES_AT_MOST = 20
"""The gradient scaler may skip first updates until its scale fits; each skip halves it, and 2**16 / 2**20 < 1."""


@dataclass(frozen=True)
class Observations:
    """State what one rank observed in a launch."""

    parts: tuple[Part, ...]
    memory_passes: tuple[MemoryPass, ...]
    """One per update of the memory pass."""
    reductions: Reductions
    """Gradient reductions of the memory pass."""
    data_wait_s: float
    """Host time the timed part waited for its windows [s]."""
    validation_loss: float | None
    """Held-out loss per valid token over all ranks before update `quality_updates` [nats/token]; None without."""

    def part(self, name: PartName) -> Iterator[Part]:
        """Give the parts of this name."""
        return (part for part in self.parts if part.name == name)


def run_protocol(bench: Workbench) -> Observations:
    """Run a launch of fixed length and observe it [one rank].

    Raises:
        BenchError: no update was applied, so there is nothing to measure.
    """
    return _Launch(bench).run()


class _Launch:
    """Run the parts one after the other."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._parts: list[Part] = []
        self._memory_passes: list[MemoryPass] = []
        self._validation_loss: float | None = None
        self._quality_update = bench.trial.measure.quality_updates or None

    def run(self) -> Observations:
        bench, measure, quality_update = self._bench, self._bench.trial.measure, self._quality_update
        assert measure.warmup_updates is not None, "a launch of fixed length"
        assert measure.updates is not None, "a launch of fixed length"
        self._run_first()
        bench.feed.want_full_rows()
        for _ in range(MEMORY_UPDATES):
            self._run_memory()
        after_timed = bench.feed.next_update + measure.warmup_updates + measure.updates
        if quality_update is not None and quality_update < after_timed:
            self._run("quality", quality_update - bench.feed.next_update)
        self._run("warmup", measure.warmup_updates)
        bench.feed.wait_s = 0.0
        self._run("timed", measure.updates)
        data_wait_s = bench.feed.wait_s
        if quality_update is not None and quality_update >= bench.feed.next_update:
            self._run("quality", quality_update - bench.feed.next_update)
            self._run("quality", 1)
        return Observations(
            tuple(self._parts), tuple(self._memory_passes), bench.reductions, data_wait_s, self._validation_loss
        )

    def _run(self, name: PartName, updates: int) -> None:
        """Run so many windows between two waits for the device, started together on all ranks."""
        bench = self._bench
        self._validate_when_due()
        if updates < 1 and name == "quality":
            return
        bench.ranks.barrier()
        bench.profiler.begin(name, updates)
        for _ in range(updates):
            bench.loop.run_window(bench.feed.next_window())
        self._parts.append(bench.profiler.end())

    def _run_first(self) -> None:
        """Run single updates until one was applied: before that the optimizer has no state to measure."""
        for _ in range(_FIRST_UPDATES_AT_MOST):
            self._run("first", 1)
            if self._parts[-1].samples[0].result == "applied":
                return
        raise BenchError(f"none of the first {_FIRST_UPDATES_AT_MOST} updates was applied: nothing can be measured")

    def _run_memory(self) -> None:
        """Run one update under the witness, which slows it; its time is kept but never used."""
        self._validate_when_due()
        with _witness(self._bench) as witness, self._bench.reductions:
            self._run("memory", 1)
        self._memory_passes.append(witness.result())

    def _validate_when_due(self) -> None:
        if self._bench.feed.next_update == self._quality_update and self._validation_loss is None:
            self._validation_loss = validation_loss(self._bench)


def _witness(bench: Workbench) -> AbstractContextManager[Witness]:
    """Make the witness of one update. The lists end here: held longer, they would keep the old gradients alive."""
    states = [value for state in bench.optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    gradients = [parameter.grad for parameter in bench.model.parameters() if parameter.grad is not None]
    alive = [*bench.model.parameters(), *bench.model.buffers(), *gradients, *states]
    kept_on_host = [state["step"] for state in bench.optimizer.state.values() if torch.is_tensor(state.get("step"))]
    return bench.device.witness(alive, kept_on_host)
