"""LoRA trains adapters alone, on models of transformers and on presets."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from bench.errors import BenchError
from bench.sweep.fields import TrialConfig
from bench.workload.facts import gradient_dtype, names_without_gradient, parameter_counts
from bench.workload.models import make_model
from tests.hf_configs import CONFIGS, LLAMA

pytest.importorskip("peft")
pytestmark = [pytest.mark.hf, pytest.mark.slow]

IDS = torch.arange(2 * 12).reshape(2, 12) * 7 % 257
MODELS: dict[str, dict[str, Any]] = {name: {"hf": config} for name, config in CONFIGS.items()} | {
    "preset llama": {"preset": "llama-nano"},
    "preset gpt2": {"preset": "gpt2-nano"},
}


def build(model: dict[str, Any], **settings: Any) -> torch.nn.Module:
    return make_model(TrialConfig.model_validate({"model": model, **settings}), "cpu")


def logits(model: torch.nn.Module) -> torch.Tensor:
    out = model(IDS)
    return out if isinstance(out, torch.Tensor) else out.logits


@pytest.mark.parametrize("name", MODELS)
def test_adapters_alone_are_trained_and_change_nothing_at_first(name: str) -> None:
    """B is zero; the layer that makes logits has no adapter."""
    plain, adapted = build(MODELS[name]), build(MODELS[name], lora={"r": 2})
    torch.testing.assert_close(logits(adapted), logits(plain))
    trainable = [name for name, one in adapted.named_parameters() if one.requires_grad]
    assert trainable
    assert all("lora_" in name for name in trainable)
    assert not any("head" in name for name in trainable)
    logits(adapted).square().sum().backward()
    assert names_without_gradient(adapted) == set()
    counts, of_plain = parameter_counts(adapted), parameter_counts(plain)
    assert counts.unique == of_plain.unique + counts.trainable
    assert of_plain.trainable == of_plain.unique


def test_rank_and_layers_are_those_asked_for() -> None:
    """Two layers of r x (in + out) in each of two blocks: q 32 -> 32, v 32 -> 16."""
    adapted = build({"hf": LLAMA}, lora={"r": 3, "target_modules": ["q_proj", "v_proj"]})
    assert parameter_counts(adapted).trainable == 2 * 3 * ((32 + 32) + (32 + 16))


def test_adapters_are_seeded() -> None:
    first, again, other = (build({"hf": LLAMA}, lora={"r": 2}, seed=seed) for seed in (1, 1, 2))
    adapters = [[one for one in model.parameters() if one.requires_grad] for model in (first, again, other)]
    assert all(map(torch.equal, adapters[0], adapters[1]))
    assert not all(map(torch.equal, adapters[0], adapters[2]))


def test_adapters_of_16_bit_weights_are_float32() -> None:
    """As peft makes them by default."""
    assert gradient_dtype(build({"hf": LLAMA}, lora={"r": 2}, param_dtype="bf16")) == "float32"


def test_layers_that_are_not_there_are_refused_with_those_that_are() -> None:
    with pytest.raises(
        BenchError, match=r"lora.target_modules = query: .*Linear layers of this model: down_proj, .*q_proj"
    ):
        build({"hf": LLAMA}, lora={"target_modules": "query"})


@pytest.mark.parametrize("kind", [True, "reentrant"])
def test_transformers_lets_gradients_through_reentrant_checkpoints(kind: bool | str) -> None:
    """It makes the embedding's output need one, as its Trainer does; the presets do not, as a script of one's own."""
    adapted = build({"hf": LLAMA}, lora={"r": 2}, activation_checkpointing=kind)
    logits(adapted).square().sum().backward()
    assert names_without_gradient(adapted) == set()


def test_reentrant_checkpoints_of_a_preset_cut_adapters_off() -> None:
    """Torch warns, and goes on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = logits(build({"preset": "llama-nano"}, lora={"r": 2}, activation_checkpointing="reentrant"))
    assert not out.requires_grad
