"""Where a model comes from, and what is known of it before it is built. No torch.

Of a preset everything is known: its shape. Of the user's own model nothing is, so that what needs a number of it must
take null: sizes, FLOPs and limits are then observed in a rank, or left out.
"""

from __future__ import annotations

from bench.sweep.fields import MODEL_SOURCES, ModelSpec, TrialConfig
from bench.sweep.hf.configuration import hf_kind, hf_name
from bench.sweep.presets import PRESETS, ModelShape


def model_sources(model: ModelSpec) -> tuple[str, ...]:
    """List the sources that are given; a model that can be built has exactly one."""
    return tuple(name for name in MODEL_SOURCES if getattr(model, name) is not None)


def model_name(model: ModelSpec) -> str:
    """Name the model as rows do: its preset, or the function that builds it."""
    if model.hf is not None:
        return hf_name(model.hf)
    return next(str(getattr(model, name)) for name in model_sources(model))


def model_kind(model: ModelSpec) -> str:
    """Name the architecture of a preset or a Hugging Face configuration; of another model its source."""
    if model.hf is not None:
        return hf_kind(model.hf)
    shape = shape_of(model)
    return model_sources(model)[0] if shape is None else shape.kind


def shape_of(model: ModelSpec) -> ModelShape | None:
    """Give the shape of a model, known without building it; null for the user's own."""
    return None if model.preset is None else PRESETS[model.preset]


def has_own_code(config: TrialConfig) -> bool:
    """Tell whether a trial runs functions of the user's own."""
    return any(reference is not None for reference in own_functions(config).values())


def own_functions(config: TrialConfig) -> dict[str, str | None]:
    """Give each setting of a trial that may name a function of the user's own, and what it names."""
    return {
        "model.factory": config.model.factory,
        "data.factory": config.data.factory,
        "data.collate": config.data.collate,
        "loss.factory": config.loss.factory,
        "optimizer.factory": config.optimizer.factory,
    }
