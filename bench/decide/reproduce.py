"""Write what reproduces a row: the lines of a sweep file, and the settings of one's own training script."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.report.points import Row
from bench.sweep.file import load_sweep
from bench.units import counted

_TOLD_TWICE = ("amp_mode", "world_size", "micro_batch_size", "global_batch_size", "seq_len", "seed")
"""Settings that a row has as columns too, under the same name."""
_PLAIN = re.compile(r"[A-Za-z0-9_./+](?:[A-Za-z0-9_./+ =()*-]|:(?=[^ ]))*")
"""Texts that need no quotes, wherever they stand; what YAML reads as another value gets them all the same."""


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
    return [
        f"{threads}torchrun --standalone --nproc-per-node {ranks or 'RANKS'} train.py",
        f"micro-batch {micro} per rank, {counted(steps, 'accumulation step')}: global batch {batch}",
        f"{precision}{sync}",
        *_model_lines(row),
        f"Hugging Face: {' '.join(_trainer_words(row))}",
        f"Accelerate: {_accelerate_words(row)}",
        f"Lightning: {_lightning_words(row)}",
    ]


def _model_lines(row: Row) -> list[str]:
    """Say what a script does to the model itself: where it comes from, LoRA, checkpointing, compilation."""
    config = _config(row)
    model, lora = config.get("model") or {}, config.get("lora")
    lines = []
    if model.get("hf") is not None:
        attention = model.get("attn_implementation")
        chosen = f", attn_implementation={attention!r}" if attention else ""
        lines.append(f"AutoModelForCausalLM.from_config(config{chosen}), config: {_yaml(model['hf'])}")
    if lora is not None:
        words = (
            f"r={lora.get('r')}, lora_alpha={lora.get('alpha')}, target_modules={_targets(lora)}, "
            f"lora_dropout={lora.get('dropout')}"
        )
        lines.append(f"peft.get_peft_model(model, peft.LoraConfig({words}))")
    if row.get("activation_checkpointing"):
        lines.append(f"blocks through torch.utils.checkpoint.checkpoint(..., use_reentrant={_is_reentrant(row)})")
    if row.get("compile"):
        lines.append("torch.compile(model)")
    return lines


def _targets(lora: dict[str, Any]) -> str:
    names = [name.strip() for name in str(lora.get("target_modules")).split(",")]
    return repr(names[0] if names == ["all-linear"] else names)


def _is_reentrant(row: Row) -> bool:
    return bool(row.get("reentrant_checkpointing"))


def _trainer_words(row: Row) -> list[str]:
    """Give the same as arguments of transformers' `TrainingArguments`."""
    mode = row.get("amp_mode")
    words = [
        f"per_device_train_batch_size={row.get('micro_batch_size')}",
        f"gradient_accumulation_steps={row.get('accumulation_steps')}",
    ]
    words += [f"{mode}=True"] if mode in ("bf16", "fp16", "tf32") else []
    if row.get("activation_checkpointing"):
        words.append("gradient_checkpointing=True")
        words.append(f"gradient_checkpointing_kwargs={{'use_reentrant': {_is_reentrant(row)}}}")
    return words + ["torch_compile=True"] * bool(row.get("compile"))


def _accelerate_words(row: Row) -> str:
    mixed = row.get("amp_mode") if row.get("amp_mode") in ("bf16", "fp16") else "no"
    return f"Accelerator(gradient_accumulation_steps={row.get('accumulation_steps')}, mixed_precision={mixed!r})"


def _lightning_words(row: Row) -> str:
    precision = {"bf16": "bf16-mixed", "fp16": "16-mixed"}.get(str(row.get("amp_mode")), "32-true")
    ranks = row.get("world_size")
    words = [
        f"accumulate_grad_batches={row.get('accumulation_steps')}",
        f"precision={precision!r}",
        *([f"devices={ranks}"] if ranks is not None else []),
        *(["strategy='ddp'"] if (ranks or 1) > 1 else []),
        *([f"gradient_clip_val={row['clip_norm']}"] if row.get("clip_norm") is not None else []),
    ]
    return f"Trainer({', '.join(words)}), batches of {row.get('micro_batch_size')}"


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
    """Write a value as one line of YAML; in braces a comma or a colon of a text would end it."""
    from bench.sweep.trial import show_value

    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    is_plain = not isinstance(value, str) or _PLAIN.fullmatch(value) is not None
    return show_value(value) if is_plain else json.dumps(value, ensure_ascii=False)
