"""One trial from flags: faults speak of flags."""

from __future__ import annotations

from typing import Any

import pytest
from ruamel.yaml import YAML

from bench.errors import BenchError
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.flags import flag_of, sweep_from_flags
from bench.sweep.trial import Trial


def test_flags_make_a_sweep_of_one_trial() -> None:
    """Dotted and nested keys mean the same; null means not given."""
    measure = {"updates": 5, "timeout_s": None}
    dotted = sweep_from_flags({"model.preset": "gpt2-nano", "global_batch_size": 4, "seed": None}, measure, "run")
    nested = sweep_from_flags({"model": {"preset": "gpt2-nano"}, "global_batch_size": 4}, measure, "run")
    (one,) = expand(dotted, MachineFacts("cpu", 0))
    assert isinstance(one, Trial)
    assert [one] == expand(nested, MachineFacts("cpu", 0))
    assert (dotted.spec.measure.updates, dotted.spec.measure.timeout_s, dotted.path) == (5, 1800.0, None)


@pytest.mark.parametrize(
    ("config", "measure", "message"),
    [
        (
            {"global_batch_size": 32, "micro_batch_size": 3},
            {},
            (
                "--global-batch-size = 32 is not a multiple of --micro-batch-size x --world-size = 3 x 1. "
                "Use --micro-batch-size 2 or 4, or --global-batch-size 30 or 33."
            ),
        ),
        (
            {"global_batch_size": 0},
            {},
            "--global-batch-size = 0 is out of range: it must be at least 1. Use 1 or more.",
        ),
        (
            {"global_batch_size": 1},
            {"updates": 0},
            "--updates = 0 is out of range: it must be at least 1. Use 1 or more.",
        ),
        (
            {},
            {},
            "The global batch size is missing. Add --global-batch-size (sequences per update) or --accumulation-steps.",
        ),
        (
            {"global_batch_size": 2, "accumulation_steps": 2},
            {},
            (
                "--accumulation-steps = 2 conflicts with --global-batch-size: each determines the other. "
                "Keep one of the two."
            ),
        ),
        (
            {"global_batch_size": 2, "optimizer.name": "adamw", "optimizer.momentum": 0.9},
            {},
            "--momentum = 0.9 has no effect with optimizer adamw. Remove it, or use --optimizer sgd.",
        ),
    ],
)
def test_a_fault_names_the_flag(config: dict[str, Any], measure: dict[str, Any], message: str) -> None:
    """No file, no line, no dotted name of a file that the user never wrote."""
    with pytest.raises(BenchError) as caught:
        sweep_from_flags(config, measure, "run")
    assert str(caught.value) == message


def test_all_faults_of_the_flags_are_reported_together() -> None:
    """One line each."""
    with pytest.raises(BenchError) as caught:
        sweep_from_flags({"global_batch_size": 2, "model.preset": "gpt2", "seq_len": 0, "clip_norm": -1.0}, {}, "run")
    lines = str(caught.value).splitlines()
    assert [line.split(" = ")[0] for line in lines] == ["--model", "--seq-len", "--clip-norm"]
    assert lines[0].endswith("Did you mean gpt2-124m?")


def test_a_flag_is_the_last_name_with_hyphens() -> None:
    """Except where a section's main field carries the section's name."""
    assert flag_of("micro_batch_size") == "--micro-batch-size"
    assert flag_of("data.rows") == "--rows"
    assert flag_of("model.preset") == "--model"
    assert flag_of("optimizer.name") == "--optimizer"


def test_settings_from_flags_are_kept_as_a_sweep_file_would_hold_them() -> None:
    """What is stored beside the results can be read again as settings."""
    sweep = sweep_from_flags({"model.preset": "gpt2-nano", "global_batch_size": 4}, {"updates": 3}, "quick")
    assert YAML(typ="safe").load(sweep.text) == {
        "format": 1,
        "name": "quick",
        "base": {"model": {"preset": "gpt2-nano"}, "global_batch_size": 4},
        "axes": {},
        "measure": {"updates": 3},
    }
