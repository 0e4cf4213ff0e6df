"""Where a model comes from: exactly one source, and what each leaves unknown."""

from __future__ import annotations

import pytest

from bench.errors import BenchError
from bench.sweep.fields import ModelSpec
from bench.sweep.flags import own_code_named, sweep_from_flags
from bench.sweep.models import has_own_code, model_kind, model_name, shape_of

BATCH = {"global_batch_size": 4}


def test_function_is_named_by_the_option_of_the_model_and_its_arguments_are_yaml() -> None:
    named = own_code_named({**BATCH, "model.preset": "mine.models:build", "model.args": "{width: 64, tied: true}"})
    model = sweep_from_flags(named, {"updates": 1}, "x").spec.base.model
    assert model == ModelSpec(factory="mine.models:build", args={"width": 64, "tied": True})
    assert (model_name(model), model_kind(model), shape_of(model)) == ("mine.models:build", "factory", None)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model.factory": "mine.py"}, "is not of the form package.module:function"),
        ({"model.factory": "my-file:build"}, "is not of the form package.module:function"),
        ({"model.factory": "m:f", "model.preset": "gpt2-nano"}, "is a second model, beside"),
        ({"model.args": "{width: 1}"}, "has no effect without --model"),
        ({"model.preset": "m:f", "model.args": "[1]"}, "--model-args = [1] is no section of keys"),
        ({"model.preset": "m:f", "model.args": "{a-b: 2}"}, "no names of arguments"),
        ({"model.preset": "m:f", "model.args": "{at: .nan}"}, "holds what is no plain value"),
        ({"model.preset": "m:f", "activation_checkpointing": True}, "has no effect on --model"),
    ],
)
def test_model_that_cannot_be_meant_is_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(BenchError) as raised:
        sweep_from_flags(own_code_named({**BATCH, **settings}), {"updates": 1}, "x")
    assert words in str(raised.value)


def test_only_a_trial_with_a_function_runs_own_code() -> None:
    own = sweep_from_flags({**BATCH, "model.factory": "m:f"}, {"updates": 1}, "x").spec.base
    assert has_own_code(own)
    assert not has_own_code(sweep_from_flags(BATCH, {"updates": 1}, "x").spec.base)
