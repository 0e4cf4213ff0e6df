"""The parts of a launch, in order: first update, memory pass, warm-up, timed part, on to the quality update.

All are real updates of one trajectory, numbered from 0 at the initial weights; they differ in what is observed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from bench.errors import BenchError
from bench.measure.device import MemoryPass
from bench.measure.profiler import Part, PartName
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
    data_wait_s: float
    """Host time the timed part waited for its windows [s]."""

    def part(self, name: PartName) -> Iterator[Part]:
        """Give the parts of this name."""
        return (part for part in self.parts if part.name == name)


def run_protocol(bench: Workbench) -> Observations:
    """Run a launch of fixed length and observe it [one rank].

    Raises:
        BenchError: no update was applied, so there is nothing to measure.
    """
    measure = bench.trial.measure
    parts = list(_first_updates(bench))
    bench.feed.want_full_rows()
    memory_passes = []
    for _ in range(MEMORY_UPDATES):
        part, witnessed = _memory_update(bench)
        parts.append(part)
        memory_passes.append(witnessed)
    parts.append(_run(bench, "warmup", measure.warmup_updates))
    bench.feed.wait_s = 0.0
    parts.append(_run(bench, "timed", measure.updates))
    data_wait_s = bench.feed.wait_s
    if measure.quality_updates:
        done = sum(len(part.samples) for part in parts)
        parts.append(_run(bench, "quality", max(0, measure.quality_updates + 1 - done)))
    return Observations(tuple(parts), tuple(memory_passes), data_wait_s)


def _run(bench: Workbench, name: PartName, updates: int) -> Part:
    """Run so many windows between two waits for the device, started together on all ranks."""
    bench.ranks.barrier()
    bench.profiler.begin(name, updates)
    for _ in range(updates):
        bench.loop.run_window(*bench.feed.next_window())
    return bench.profiler.end()


def _first_updates(bench: Workbench) -> Iterator[Part]:
    """Run single updates until one was applied: before that the optimizer has no state to measure."""
    for _ in range(_FIRST_UPDATES_AT_MOST):
        part = _run(bench, "first", 1)
        yield part
        if part.samples[0].result == "applied":
            return
    raise BenchError(f"none of the first {_FIRST_UPDATES_AT_MOST} updates was applied: nothing can be measured")


def _memory_update(bench: Workbench) -> tuple[Part, MemoryPass]:
    """Run one update under the witness, which slows it; its time is kept but never used."""
    states = [value for state in bench.optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    gradients = [parameter.grad for parameter in bench.model.parameters() if parameter.grad is not None]
    alive = [*bench.model.parameters(), *bench.model.buffers(), *gradients, *states]
    kept_on_host = [state["step"] for state in bench.optimizer.state.values() if torch.is_tensor(state.get("step"))]
    with bench.device.witness(alive, kept_on_host) as witness:
        part = _run(bench, "memory", 1)
    return part, witness.result()
