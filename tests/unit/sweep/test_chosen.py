"""Configurations chosen one by one become a sweep that runs exactly them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import BenchError
from bench.sweep.chosen import sweep_of_configs
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.fields import MeasureSpec, TrialConfig
from bench.sweep.file import load_sweep
from bench.sweep.trial import Trial, resolve, trial_id

MEASURE = MeasureSpec.model_validate({"warmup_updates": 1, "updates": 2, "rounds": 6, "order": "alternating"})
CHANGES: list[dict[str, Any]] = [
    {"micro_batch_size": 2},
    {"micro_batch_size": 8, "amp_mode": "bf16"},
    {"model": {"preset": "llama-nano"}, "seq_len": 64},
    {"optimizer": {"name": "sgd", "momentum": 0.5}},
    {"optimizer": {"name": "adamw", "beta2": 0.99}, "clip_norm": None},
    {"data": {"synthetic": {"documents": 5}, "rows": "ragged"}},
    {"data": {"synthetic": {"documents": 6}, "rows": "ragged"}},
    {"data": {"corpus": "stdlib", "sequences_per_epoch": 20}},
    {"schedule": {"name": "cosine", "total_updates": 50, "lr_warmup_updates": 2}},
    {"global_batch_size": 32, "cpu_threads_per_rank": 1, "activation_checkpointing": True},
]


def config(changes: dict[str, Any]) -> TrialConfig:
    base = {"device": "cpu", "model": {"preset": "gpt2-nano"}, "global_batch_size": 16}
    return resolve(TrialConfig.model_validate({**base, **changes}), "cpu")


@given(st.permutations(CHANGES).flatmap(lambda order: st.integers(2, 5).map(lambda count: order[:count])))
def test_the_trials_are_those_chosen_in_their_order(chosen: list[dict[str, Any]]) -> None:
    """Whatever they have in common, and whatever sections differ in part."""
    configs = [config(changes) for changes in chosen]
    sweep = sweep_of_configs(configs, MEASURE, "chosen")
    points = expand(sweep, MachineFacts("cpu", 0))
    assert [point.config for point in points if isinstance(point, Trial)] == configs
    assert [point.trial_id for point in points if isinstance(point, Trial)] == [trial_id(one) for one in configs]
    assert sweep.spec.measure == MEASURE


def test_the_text_is_a_sweep_file_that_runs_them_again(tmp_path: Path) -> None:
    """The folder of a comparison holds it, and what all share stands in base once."""
    sweep = sweep_of_configs([config(CHANGES[0]), config(CHANGES[1])], MEASURE, "chosen")
    (tmp_path / "sweep.yaml").write_text(sweep.text)
    read = load_sweep(tmp_path / "sweep.yaml")
    assert (read.spec, read.axes) == (sweep.spec, ("amp_mode", "micro_batch_size"))
    assert set(read.spec.base.model_fields_set) == {"device", "model", "global_batch_size", "data", "optimizer"}


def test_what_this_version_cannot_run_is_said() -> None:
    """A configuration that another version stored may break a rule of this one."""
    broken = config({}).model_copy(update={"global_batch_size": 15, "micro_batch_size": 4})
    with pytest.raises(BenchError, match="15 is not a multiple"):
        sweep_of_configs([broken, broken.model_copy(update={"seed": 1})], MEASURE, "chosen")
