"""The columns of a row that come from the trial alone."""

from __future__ import annotations

import json
from typing import Any

from bench.sweep.fields import FILE_SOURCES, DataSpec, TrialConfig
from bench.sweep.paths import value_at
from bench.sweep.presets import PRESETS
from bench.sweep.settings import SETTINGS


def config_columns(config: TrialConfig) -> dict[str, Any]:
    """Lay a trial's settings out as columns; nested ones under plain names."""
    return {
        **{setting.column: value_at(config, setting.path) for setting in SETTINGS},
        "model_kind": PRESETS[config.model.preset].kind,
        "data_source": data_source(config.data),
        "config_json": json.dumps(config.model_dump(mode="json"), sort_keys=True),
    }


def data_source(data: DataSpec) -> str:
    """Name the source of the text, such as corpus: stdlib."""
    for kind in FILE_SOURCES:
        if (name := getattr(data, kind)) is not None:
            return f"{kind}: {name}"
    if data.synthetic is not None:
        rest = data.synthetic.model_dump(exclude_defaults=True, exclude={"mean_tokens"})
        words = [f"mean {data.synthetic.mean_tokens} tokens", *(f"{key} {value}" for key, value in rest.items())]
        return f"synthetic: {', '.join(words)}"
    return f"corpus: {data.corpus or 'stdlib'}"
