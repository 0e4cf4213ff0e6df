"""A launch whose update times are known: the protocol runs on data that is real and a device whose time is planted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from bench.launch.trial_file import TrialFile
from bench.loop import Observers, UpdateResult, Window
from bench.measure.cpu_use import CpuCounters
from bench.measure.profiler import Profiler
from bench.rank.columns import facts_before, measured_columns, train_losses, update_rows, why_invalid
from bench.rank.memory_columns import why_memory_is_wrong
from bench.rank.protocol import Observations, run_protocol
from bench.rank.ranks import Ranks
from bench.rank.witnessed import witness_updates
from bench.rank.witnessed_columns import witnessed_columns, witnessed_rows
from bench.rank.workbench import Workbench, build_workbench
from bench.record.derive import derive
from bench.record.reduce import reduce_ranks
from bench.sweep.fields import MeasureSpec, TrialConfig
from tests.fakes import FakeDevice, FakeMark

Seconds = Callable[[int], float]
"""Number of a micro-step or of an update -> how long it takes [s]."""


class PlantedDevice(FakeDevice):
    """Stand where the plan puts it: host and device see the same time, which only the planted loop moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.edge_s = 0.0
        """Time that waiting for the device takes on the host, after the last mark of a part [s]."""
        self.counters: Callable[[float], CpuCounters] = lambda now_s: CpuCounters()
        """Planted time [s] -> what the kernel has counted of the cores."""

    def cpu_counters(self) -> CpuCounters:
        """Count what is planted of the host's cores: nothing is known unless a test says so."""
        return self.counters(self.now_s)

    def mark(self) -> FakeMark:
        """Mark the planted time."""
        return FakeMark(0, self.now_s)

    def synchronise(self) -> None:
        """Wait at an edge, for as long as planted."""
        self.now_s += self.edge_s

    def clock(self) -> int:
        """Read the planted time as the host's clock does [ns]."""
        return round(self.now_s * 1e9)


class PlantedLoop:
    """Do as the loop does towards its observers, train nothing, and take the planted time."""

    def __init__(self, bench: Workbench, device: PlantedDevice, micro_step_s: Seconds, update_s: Seconds) -> None:
        self.precision, self.sync, self.device = bench.loop.precision, bench.loop.sync, bench.loop.device
        self.loss_sum = bench.loop.loss_sum
        self._bench, self._device = bench, device
        self._micro_step_s, self._update_s = micro_step_s, update_s
        self._updates = 0

    def run_window(self, window: Window) -> None:
        """Run one window."""
        observer = Observers(self._bench.reductions, self._bench.profiler)
        observer.window_begin(window.plan)
        for micro_step, _ in enumerate(window):
            self._device.now_s += self._micro_step_s(micro_step)
            observer.micro_step_end()
        self._device.now_s += self._update_s(self._updates)
        self._updates += 1
        plan = window.settle()
        loss = torch.tensor(3.0 * plan.this_rank.units, dtype=torch.float64)
        observer.update_end(UpdateResult(plan, "applied", loss, torch.tensor(0.5), 3e-4, None))


def planted(
    measure: dict[str, Any], micro_step_s: Seconds, update_s: Seconds, **config: Any
) -> tuple[Workbench, PlantedDevice]:
    """Build a nano trial whose time is planted."""
    trial = TrialConfig.model_validate(
        {
            "device": "cpu",
            "model": {"preset": "gpt2-nano"},
            "data": {"synthetic": {"documents": 300, "mean_tokens": 12}, "rows": "packed"},
            "seq_len": 16,
            "global_batch_size": 4,
            "accumulation_steps": 2,
            "micro_batch_size": 2,
            "optimizer": {"name": "adamw", "lr": 0.01, "beta1": 0.9, "beta2": 0.95},
            **config,
        }
    )
    device = PlantedDevice()
    spec = MeasureSpec.model_validate({"quality_updates": 0, **measure})
    bench = build_workbench(TrialFile("s", "0" * 12, 0, 0, 0, trial, spec, 1, ()), Ranks(0, 1, None), device, [])
    device.allocator.allocate(1 << 22)  # more than the nano model with its gradients and optimizer state
    bench.profiler = Profiler(device, device.clock, device.cpu_counters)
    bench.loop = PlantedLoop(bench, device, micro_step_s, update_s)  # type: ignore[assignment]
    return bench, device


def row_of(bench: Workbench) -> tuple[dict[str, Any], list[dict[str, Any]], Observations]:
    """Run the launch; give its row, its updates and what was observed, as a sweep would."""
    facts = facts_before(bench)
    observed = run_protocol(bench)
    losses = train_losses(bench, observed)
    columns = facts | measured_columns(bench, observed, losses)
    reason = why_invalid(bench, observed, losses) or why_memory_is_wrong(columns)
    witnessed = witness_updates(bench, observed.pace.is_shortened)
    columns |= witnessed_columns(bench, witnessed, columns)
    rows = update_rows(observed, losses) + witnessed_rows(witnessed)
    row, updates = reduce_ranks([{"rank": 0, "columns": columns, "updates": rows}])
    config = bench.trial.config
    asked = {"accumulation_steps": config.accumulation_steps, "world_size": config.world_size}
    return (
        derive({**row, **asked, "outcome": "invalid" if reason else "ok", "reason": reason}, updates),
        updates,
        observed,
    )
