"""A trial's id names its configuration: always the same, and never two by one name."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.sweep.fields import OptimizerSpec, TrialConfig
from bench.sweep.trial import Skipped, Trial, resolve, show_value, trial_id

BASE: dict[str, Any] = {
    "device": "cpu",
    "model": {"preset": "gpt2-tiny"},
    "data": {"corpus": "stdlib", "rows": "ragged"},
    "global_batch_size": 16,
    "micro_batch_size": 4,
    "optimizer": {"name": "adamw", "lr": 0.001},
}

CHANGES: list[dict[str, Any]] = [
    {"device": "cuda"},
    {"model": {"preset": "gpt2-nano"}},
    {"param_dtype": "bf16"},
    {"data": {"corpus": "stdlib"}},
    {"data": {"synthetic": {}, "rows": "ragged"}},
    {"data": {"synthetic": {"documents": 7}, "rows": "ragged"}},
    {"data": {"corpus": "stdlib", "rows": "ragged", "sequences_per_epoch": 19}},
    {"seq_len": 64},
    {"global_batch_size": 32},
    {"micro_batch_size": 8},
    {"world_size": 2},
    {"amp_mode": "bf16"},
    {"optimizer": {"name": "adamw", "lr": 0.002}},
    {"optimizer": {"name": "sgd", "lr": 0.001}},
    {"optimizer": {"name": "sgd", "lr": 0.001, "momentum": 0.9}},
    {"optimizer": {"name": "adamw", "lr": 0.001, "implementation": "fused"}},
    {"schedule": {"name": "cosine", "total_updates": 100}},
    {"clip_norm": None},
    {"clip_norm": 0.5},
    {"seed": 1},
    {"activation_checkpointing": True},
    {"gradient_sync": "every"},
    {"window_mode": "streamed"},
    {"cpu_threads_per_rank": 1},
]


def id_of(settings: dict[str, Any]) -> str:
    return trial_id(resolve(TrialConfig.model_validate(settings), "cpu"))


def shuffled(settings: dict[str, Any], seed: int) -> dict[str, Any]:
    keys = list(settings)
    random.Random(seed).shuffle(keys)
    return {key: shuffled(settings[key], seed) if isinstance(settings[key], dict) else settings[key] for key in keys}


def test_an_id_stays_what_it_was() -> None:
    """Results of earlier versions are found again: these ids are written down and never change."""
    assert id_of({"global_batch_size": 32}) == "f6a049baaf88"
    assert id_of(BASE) == "e2c1987d6d50"


@given(st.integers(0, 1000))
def test_an_id_does_not_depend_on_the_order_of_keys(seed: int) -> None:
    """A file may list its keys in any order."""
    assert id_of(shuffled(BASE, seed)) == id_of(BASE)


def test_distinct_configurations_have_distinct_ids() -> None:
    """Every setting takes part."""
    ids = [id_of(BASE), *(id_of({**BASE, **change}) for change in CHANGES)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    "same",
    [
        {"seed": 1337, "clip_norm": 1.0, "window_mode": "buffered"},
        {"data": {"rows": "ragged"}},
        {"optimizer": {"lr": 1e-3}},
        {"optimizer": {"lr": 0.001, "beta1": 0.9, "beta2": 0.95, "weight_decay": 0.1}},
        {"global_batch_size": None, "accumulation_steps": 4},
        {"device": "auto"},
        {"clip_norm": 1},
    ],
)
def test_writing_a_default_out_changes_no_id(same: dict[str, Any]) -> None:
    """The same configuration said in other words is the same trial."""
    assert id_of({**BASE, **same}) == id_of(BASE)


def test_a_field_added_later_keeps_old_ids() -> None:
    """A new field at its default, at the top or in a section, leaves the ids of before as they are."""

    class NewOptimizer(OptimizerSpec):
        amsgrad: bool = False

    class NewConfig(TrialConfig):
        compile: bool = False
        optimizer: NewOptimizer = NewOptimizer()

    assert trial_id(resolve(NewConfig.model_validate(BASE), "cpu")) == id_of(BASE)
    assert trial_id(resolve(NewConfig.model_validate({**BASE, "compile": True}), "cpu")) != id_of(BASE)


def test_resolving_fills_in_what_is_open_and_nothing_else() -> None:
    """Device, batch, source and the optimizer's own numbers; momentum stays null under adamw."""
    config = resolve(
        TrialConfig.model_validate({"accumulation_steps": 3, "micro_batch_size": 2, "world_size": 2}), "cpu"
    )
    assert (config.device, config.global_batch_size, config.accumulation_steps) == ("cpu", 12, 3)
    assert (config.data.corpus, config.data.text) == ("stdlib", None)
    assert (config.optimizer.beta1, config.optimizer.beta2, config.optimizer.momentum) == (0.9, 0.95, None)
    sgd = resolve(TrialConfig.model_validate({"optimizer": {"name": "sgd"}}), "cpu").optimizer
    assert (sgd.momentum, sgd.beta1, sgd.beta2) == (0.0, None, None)
    assert resolve(config, "cuda") == config


@given(st.sampled_from(CHANGES))
def test_a_resolved_configuration_survives_json(change: dict[str, Any]) -> None:
    """The worker reads back exactly what the driver wrote."""
    config = resolve(TrialConfig.model_validate({**BASE, **change}), "cpu")
    assert TrialConfig.model_validate_json(config.model_dump_json()) == config
    assert TrialConfig.model_validate(config.model_dump(mode="json")) == config


def test_a_label_shows_axis_values_as_a_sweep_file_writes_them() -> None:
    """Short enough for a progress line."""
    config = TrialConfig()
    values = (("micro_batch_size", 4), ("amp_mode", "bf16"), ("clip_norm", None), ("model", {"preset": "gpt2-nano"}))
    label = "micro_batch_size=4 amp_mode=bf16 clip_norm=null model={preset: gpt2-nano}"
    assert Trial("0" * 12, config, values).label() == label
    assert Skipped("0" * 12, config, "why", values).label() == label
    assert Trial("0" * 12, config).label() == "micro_batch_size=1"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ("off", "off"),
        ("16", '"16"'),
        ("", '""'),
        ("null", '"null"'),
        ([1, "a"], "[1, a]"),
        (0.001, "0.001"),
    ],
)
def test_a_value_is_shown_as_it_would_be_written(value: Any, text: str) -> None:
    """Text that looks like something else keeps its quotes."""
    assert show_value(value) == text
