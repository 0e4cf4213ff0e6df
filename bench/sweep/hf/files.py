"""Where a sweep says which Hugging Face configurations it reads, so that they are looked for before anything runs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from bench.sweep.faults import Location
from bench.sweep.fields import SweepSpec, TrialConfig
from bench.sweep.hf.configuration import hf_faults
from bench.sweep.paths import with_settings

_KEYS = ("model", "model.hf", "lora")
"""Axes that decide what is read, and which packages are needed."""


def model_faults(spec: SweepSpec) -> list[tuple[Location, str]]:
    """Say what is missing for the models of a sweep, each once, with the place of the setting that needs it."""
    return list(dict.fromkeys((place, fault) for place, config in _models(spec) for fault in hf_faults(config)))


def needs_hf(spec: SweepSpec) -> bool:
    """Tell whether a trial of the sweep needs transformers or peft."""
    return any(config.model.hf is not None or config.lora is not None for _, config in _models(spec))


def _models(spec: SweepSpec) -> Iterator[tuple[Location, TrialConfig]]:
    """Yield each model that trials may have, with its place in the file."""
    base = spec.base.model_dump(exclude_unset=True)
    axes = {name: values for name, values in spec.axes.items() if name in _KEYS or name.startswith("lora.")}
    if not axes and not spec.trials:
        place = "lora" if spec.base.model.hf is None and spec.base.lora is not None else "model"
        yield ("base", place), TrialConfig.model_validate(base)
    seen = set()
    for name, values in axes.items():
        for number, value in enumerate(values):
            config = TrialConfig.model_validate(with_settings(base, {name: value}))
            text = json.dumps([config.model.model_dump(mode="json"), config.lora is None], sort_keys=True)
            if text not in seen:
                seen.add(text)
                yield ("axes", name, number), config
    for number, settings in enumerate(spec.trials):
        yield ("trials", number), TrialConfig.model_validate(with_settings(base, settings))
