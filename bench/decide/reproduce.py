"""Write what reproduces a row: the lines of a sweep file, and the settings of one's own training script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.report.points import Row
from bench.sweep.file import load_sweep
from bench.units import counted

_TOLD_TWICE = ("amp_mode", "world_size", "micro_batch_size", "global_batch_size", "seq_len", "seed")
"""Settings that a row has as columns too, under the same name."""


def sweep_file_lines(row: Row, measure: str = "{rounds: 3}") -> list[str]:
    """Write a whole sweep file of one trial, the row's; lines without line ends.

    `measure` is how to measure, as `measure_of` reads it from the folder of the row: rows do not hold it.

    Settings at their default are left out; a configuration that this version cannot read is written in full. Where a
    row does not hold its configuration, or another one than its columns, one line says that there is no file.
    """
    if is_foreign(row):
        return ["not available: the row's config_json is missing or contradicts its other columns"]
    config = _config(row)
    config.pop("accumulation_steps", None)  # follows from the three sizes of the batch
    settings = _without_defaults(config)
    micro_batch_size = settings.pop("micro_batch_size", row.get("micro_batch_size"))
    lines = ["format: 1", f"name: {row.get('sweep') or 'chosen'}-choice", "base:"]
    lines += [f"  {name}: {_yaml(value)}" for name, value in settings.items()]
    return [*lines, "axes:", f"  micro_batch_size: [{micro_batch_size}]", f"measure: {measure}"]


def measure_of(row: Row, paths: Sequence[Path]) -> str:
    """Write the `measure` of the sweep file that lies in the results folder the row was read from.

    Three rounds of the usual length where that is not known: for a file, or a folder without a readable sweep file.
    """
    source = row.get("source")
    folder = paths[source] if source is not None and source < len(paths) else None
    file = None if folder is None else folder / "sweep.yaml"
    try:
        spec = load_sweep(file).spec.measure if file is not None and file.is_file() else None
    except BenchError:
        spec = None
    return "{rounds: 3}" if spec is None else _yaml(spec.model_dump(mode="json", exclude_unset=True, exclude_none=True))


def is_foreign(row: Row) -> bool:
    """Whether config_json is missing, damaged, or of another configuration than the row's own columns."""
    config = _config(row)
    told = [(row.get(name), config.get(name, row.get(name))) for name in _TOLD_TWICE]
    return "micro_batch_size" not in config or any(here is not None and here != there for here, there in told)


def _config(row: Row) -> dict[str, Any]:
    """Read config_json; empty where it is no JSON object."""
    try:
        config = json.loads(row.get("config_json") or "{}")
    except ValueError:
        return {}
    return config if isinstance(config, dict) else {}


def torchrun_lines(row: Row) -> list[str]:
    """Write how to start one's own script like this row, and the same settings under Hugging Face's names."""
    ranks, micro, steps = row.get("world_size"), row.get("micro_batch_size"), row.get("accumulation_steps")
    batch = row.get("global_batch_size")
    is_cpu = row.get("device") == "cpu"
    threads = f"OMP_NUM_THREADS={row['threads_per_rank']} " if is_cpu and row.get("threads_per_rank") else ""
    mode = row.get("amp_mode")
    precision = {
        "fp32": "no autocast, TF32 off",
        "tf32": "no autocast, torch.set_float32_matmul_precision('high')",
        "bf16": "torch.autocast(dtype=torch.bfloat16)",
        "fp16": "torch.autocast(dtype=torch.float16) and a GradScaler, one scale per window",
    }.get(str(mode), str(mode))
    sync = ", no_sync() around all but the window's last forward and backward" if (ranks or 1) > 1 else ""
    hugging = [f"per_device_train_batch_size={micro}", f"gradient_accumulation_steps={steps}"]
    hugging += [f"{mode}=True"] if mode in ("bf16", "fp16", "tf32") else []
    if row.get("activation_checkpointing"):
        reentrant = bool(row.get("reentrant_checkpointing"))
        hugging += [f"gradient_checkpointing=True gradient_checkpointing_kwargs={{'use_reentrant': {reentrant}}}"]
    return [
        f"{threads}torchrun --standalone --nproc-per-node {ranks or 'RANKS'} train.py",
        f"micro-batch {micro} per rank, {counted(steps, 'accumulation step')}: global batch {batch}",
        f"{precision}{sync}",
        f"Hugging Face: {' '.join(hugging)}",
    ]


def _without_defaults(config: dict[str, Any]) -> dict[str, Any]:
    from pydantic import ValidationError

    from bench.sweep.fields import TrialConfig

    try:
        checked = TrialConfig.model_validate(config)
    except ValidationError:
        return config
    settings = checked.model_dump(mode="json", exclude_defaults=True)
    # What people look for first is always there, in the order of the fields.
    always = ("device", "model", "amp_mode", "world_size", "micro_batch_size", "global_batch_size")
    full = checked.model_dump(mode="json")
    return {name: settings.get(name, full[name]) for name in full if name in settings or name in always}


def _yaml(value: Any) -> str:
    from bench.sweep.trial import show_value

    return show_value(value)
