"""A launch of a nano model in this process, on the CPU, with the columns a rank would report."""

from __future__ import annotations

from typing import Any

from bench.launch.trial_file import TrialFile
from bench.measure.cpu import CpuDevice
from bench.rank.columns import facts_before, measured_columns, train_losses
from bench.rank.protocol import Observations, run_protocol
from bench.rank.ranks import Ranks
from bench.rank.witnessed import WitnessedUpdates, witness_updates
from bench.rank.witnessed_columns import witnessed_columns
from bench.rank.workbench import Workbench, build_workbench
from bench.sweep.fields import MeasureSpec, TrialConfig


def trial_file(
    micro_batch_size: int = 2,
    accumulation_steps: int = 2,
    measure: dict[str, Any] | None = None,
    ranks: tuple[int, ...] = (),
    **config: Any,
) -> TrialFile:
    """Ask for a nano trial on one rank: one timed update after the memory pass, unless asked otherwise."""
    trial = TrialConfig.model_validate(
        {
            "device": "cpu",
            "model": {"preset": "gpt2-nano"},
            "data": {"synthetic": {"documents": 300, "mean_tokens": 40}, "rows": "packed"},
            "seq_len": 32,
            "global_batch_size": micro_batch_size * accumulation_steps,
            "micro_batch_size": micro_batch_size,
            "accumulation_steps": accumulation_steps,
            "optimizer": {"name": "adamw", "lr": 0.01, "beta1": 0.9, "beta2": 0.95},
            **config,
        }
    )
    spec = MeasureSpec.model_validate({"warmup_updates": 0, "updates": 1, "quality_updates": 0, **(measure or {})})
    return TrialFile("s", "0" * 12, 0, 0, 0, trial, spec, 1, ranks)


def build(*sizes: int, **asked: Any) -> Workbench:
    """Build the trial that `trial_file` asks for."""
    return build_workbench(trial_file(*sizes, **asked), Ranks(0, 1, None), CpuDevice(), [])


def columns_of(bench: Workbench) -> dict[str, Any]:
    """Run the launch; give what its rank reports."""
    return columns_and_witnessed(bench)[0]


def columns_and_witnessed(bench: Workbench) -> tuple[dict[str, Any], Observations, WitnessedUpdates]:
    """Run the launch; give what its rank reports, and what it reports it from."""
    facts = facts_before(bench)
    observed = run_protocol(bench)
    columns = facts | measured_columns(bench, observed, train_losses(bench, observed))
    witnessed = witness_updates(bench, observed.pace.is_shortened)
    return columns | witnessed_columns(bench, witnessed, columns), observed, witnessed
