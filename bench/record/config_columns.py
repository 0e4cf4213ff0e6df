"""The columns of a row that come from the trial alone."""

from __future__ import annotations

import json
from typing import Any

from bench.sweep.fields import DataSpec, TrialConfig
from bench.sweep.presets import PRESETS


def config_columns(config: TrialConfig) -> dict[str, Any]:
    """Lay a trial's settings out as columns; nested ones under plain names."""
    optimizer, schedule, data = config.optimizer, config.schedule, config.data
    return {
        "device": config.device,
        "model": config.model.preset,
        "model_kind": PRESETS[config.model.preset].kind,
        "param_dtype": config.param_dtype,
        "amp_mode": config.amp_mode,
        "world_size": config.world_size,
        "micro_batch_size": config.micro_batch_size,
        "accumulation_steps": config.accumulation_steps,
        "global_batch_size": config.global_batch_size,
        "seq_len": config.seq_len,
        "data_source": data_source(data),
        "end_of_text": data.end_of_text,
        "rows": data.rows,
        "sequences_per_epoch": data.sequences_per_epoch,
        "tail": data.tail,
        "optimizer": optimizer.name,
        "optimizer_implementation": optimizer.implementation,
        "lr": optimizer.lr,
        "weight_decay": optimizer.weight_decay,
        "momentum": optimizer.momentum,
        "beta1": optimizer.beta1,
        "beta2": optimizer.beta2,
        "schedule": schedule.name,
        "lr_warmup_updates": schedule.lr_warmup_updates,
        "schedule_total_updates": schedule.total_updates,
        "clip_norm": config.clip_norm,
        "seed": config.seed,
        "activation_checkpointing": config.activation_checkpointing,
        "gradient_sync": config.gradient_sync,
        "window_mode": config.window_mode,
        "cpu_threads_per_rank": config.cpu_threads_per_rank,
        "config_json": json.dumps(config.model_dump(mode="json"), sort_keys=True),
    }


def data_source(data: DataSpec) -> str:
    """Name the source of the text, such as corpus: stdlib."""
    if data.text is not None:
        return f"text: {data.text}"
    if data.tokens is not None:
        return f"tokens: {data.tokens}"
    if data.synthetic is not None:
        rest = data.synthetic.model_dump(exclude_defaults=True, exclude={"mean_tokens"})
        words = [f"mean {data.synthetic.mean_tokens} tokens", *(f"{key} {value}" for key, value in rest.items())]
        return f"synthetic: {', '.join(words)}"
    return f"corpus: {data.corpus or 'stdlib'}"
