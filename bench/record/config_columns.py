"""The columns of a row that come from the trial alone."""

from __future__ import annotations

import json
from typing import Any

from bench.sweep.fields import DATA_SOURCES, FILE_SOURCES, DataSpec, TrialConfig
from bench.sweep.models import model_kind, model_name
from bench.sweep.paths import value_at
from bench.sweep.settings import SETTINGS, columns_of


def config_columns(config: TrialConfig) -> dict[str, Any]:
    """Lay a trial's settings out as columns; nested ones under plain names."""
    columns: dict[str, Any] = {}
    for setting in SETTINGS:
        columns |= columns_of(setting.path, _plain(value_at(config, setting.path)))
    return {
        **columns,
        "model": model_name(config.model),
        **_of_optimizer(config),
        "model_kind": model_kind(config.model),
        "data_source": data_source(config.data),
        "rows": None if config.data.factory is not None else config.data.rows,
        "config_json": json.dumps(config.model_dump(mode="json"), sort_keys=True),
    }


def _of_optimizer(config: TrialConfig) -> dict[str, Any]:
    """Name the optimizer; of the user's own the settings of ours say nothing."""
    spec = config.optimizer
    if spec.factory is None:
        return {"optimizer": spec.name}
    return {"optimizer": spec.factory, "optimizer_implementation": None, "weight_decay": None}


def _plain(value: Any) -> Any:
    """Write arguments of a function as JSON; other values are a column's already."""
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else value


def corpus_name(data: DataSpec) -> str:
    """Name all that the tokens depend on: the source, and each setting that says how it is read.

    Data that differ only in how sequences are cut from the tokens have the same name.
    """
    is_use = {"rows", "sequences_per_epoch", "tail", *DATA_SOURCES}
    read_by = data.model_dump(mode="json", exclude_none=True, exclude=is_use)
    return ", ".join([data_source(data), *(f"{key}: {value}" for key, value in read_by.items())])


def data_source(data: DataSpec) -> str:
    """Name the source of the tokens, such as corpus: stdlib."""
    for kind in FILE_SOURCES:
        if (name := getattr(data, kind)) is not None:
            return f"{kind}: {name}"
    if data.factory is not None:
        return f"factory: {data.factory}"
    if data.synthetic is not None:
        rest = data.synthetic.model_dump(exclude_defaults=True, exclude={"mean_tokens"})
        words = [f"mean {data.synthetic.mean_tokens} tokens", *(f"{key} {value}" for key, value in rest.items())]
        return f"synthetic: {', '.join(words)}"
    return f"corpus: {data.corpus or 'stdlib'}"
