"""Write what reproduces a row: the lines of a sweep file, and the settings of one's own training script."""

from __future__ import annotations

import json
from typing import Any

from bench.report.points import Row


def sweep_file_lines(row: Row, rounds: int = 3) -> list[str]:
    """Write a whole sweep file of one trial, the row's; lines without line ends.

    Settings at their default are left out; a configuration that this version cannot read is written in full.
    """
    config = json.loads(row.get("config_json") or "{}")
    config.pop("accumulation_steps", None)  # follows from the three sizes of the batch
    settings = _without_defaults(config)
    micro_batch_size = settings.pop("micro_batch_size", row.get("micro_batch_size"))
    lines = ["format: 1", f"name: {row.get('sweep') or 'chosen'}-choice", "base:"]
    lines += [f"  {name}: {_yaml(value)}" for name, value in settings.items()]
    return [*lines, "axes:", f"  micro_batch_size: [{micro_batch_size}]", f"measure: {{rounds: {rounds}}}"]


def torchrun_lines(row: Row) -> list[str]:
    """Write how to start one's own script like this row, and the same settings under Hugging Face's names."""
    ranks, micro, steps = row.get("world_size"), row.get("micro_batch_size"), row.get("accumulation_steps")
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
    hugging += ["gradient_checkpointing=True"] if row.get("activation_checkpointing") else []
    return [
        f"{threads}torchrun --standalone --nproc-per-node {ranks} train.py",
        f"micro-batch {micro} per rank, {steps} accumulation steps: global batch {row.get('global_batch_size')}",
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
