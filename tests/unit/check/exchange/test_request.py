"""Which settings make a configuration of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.check.exchange.request import ProofRequest, request_of
from bench.sweep.fields import TrialConfig


def config(**settings: Any) -> TrialConfig:
    return TrialConfig.model_validate({"device": "cpu", "global_batch_size": 8, **settings})


def key(**settings: Any) -> str:
    return request_of(config(**settings), 60.0).key()


@pytest.mark.parametrize(
    "change",
    [{"micro_batch_size": 4}, {"seq_len": 64}, {"seed": 3}, {"data": {"rows": "padded"}}, {"clip_norm": None}],
    ids=str,
)
def test_settings_that_do_not_change_the_arithmetic_share_a_proof(change: dict[str, Any]) -> None:
    """A sweep over micro-batch sizes is proved once."""
    assert key(**change) == key()


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"preset": "gpt2-nano"}},
        {"amp_mode": "bf16"},
        {"world_size": 2},
        {"param_dtype": "bf16"},
        {"window_mode": "streamed"},
        {"gradient_sync": "every"},
        {"optimizer": {"name": "sgd"}},
        {"optimizer": {"implementation": "fused"}},
        {"activation_checkpointing": True},
        {"activation_checkpointing": "reentrant"},
    ],
    ids=str,
)
def test_settings_that_change_the_arithmetic_have_a_proof_of_their_own(change: dict[str, Any]) -> None:
    """What goes another way through the loop is proved apart."""
    assert key(**change) != key()


def test_two_ranks_stand_for_more_and_the_time_limit_does_not_matter() -> None:
    """Eight ranks are not eight proofs."""
    assert key(world_size=8) == key(world_size=2)
    assert request_of(config(world_size=8), 1.0).key() == key(world_size=2)


def test_request_survives_its_file_and_another_format_is_refused(tmp_path: Path) -> None:
    """Driver and rank may be of different versions."""
    request = ProofRequest(model="llama-nano", step="a:b", world_size=2, time_limit_s=5.0)
    path = tmp_path / "proof.json"
    request.write(path, seconds_left=3600.0)
    assert ProofRequest.read(path) == request
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(ValueError, match="another format"):
        ProofRequest.read(path)


def test_time_that_starting_a_rank_took_is_taken_off_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of the limit is what the rank has; never less than nothing."""
    path = tmp_path / "proof.json"
    now_s = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    ProofRequest(time_limit_s=60.0).write(path, seconds_left=90.0)
    for now_s[0], left_s in ((110.0, 60.0), (150.0, 40.0), (200.0, 0.0)):
        assert ProofRequest.read(path).time_limit_s == left_s


def test_label_names_what_is_not_usual() -> None:
    """A reader tells two configurations apart."""
    assert ProofRequest(model="gpt2-mini", amp_mode="bf16").label() == "gpt2-mini, bf16, world size 1"
    label = ProofRequest(world_size=8, window_mode="streamed", activation_checkpointing=True).label()
    assert label == "gpt2-nano, fp32, world size 8, windows streamed, activation checkpointing"
