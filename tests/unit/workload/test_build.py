"""Models have their published sizes and the same weights for the same seed."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import pytest
import torch

from bench.sweep.presets import PRESETS
from bench.workload.build import PARAM_DTYPES, build_model
from bench.workload.facts import parameter_counts

TINY = ["gpt2-tiny", "llama-tiny"]


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [("gpt2-124m", 124_439_808), ("gpt2-350m", 354_823_168), ("llama-1b", 1_235_814_400), ("llama-8b", 8_030_261_248)],
)
def test_presets_have_exactly_their_published_parameters(preset: str, parameters: int) -> None:
    """Counted on the meta device, without memory."""
    counts = parameter_counts(build_model(PRESETS[preset], seed=0, device="meta"))
    assert counts.unique == counts.trainable == counts.total == parameters


@pytest.mark.parametrize("preset", TINY)
def test_weights_depend_on_the_seed_alone(preset: str) -> None:
    """Not on checkpointing, nor on what the global generator did before; which is left where it was."""
    torch.manual_seed(5)
    first = build_model(PRESETS[preset], seed=1)
    assert torch.rand(()) == torch.rand((), generator=torch.Generator().manual_seed(5))
    again = build_model(PRESETS[preset], seed=1, activation_checkpointing=True)
    other = build_model(PRESETS[preset], seed=2)
    weights = [dict(model.named_parameters()) for model in (first, again, other)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not any(torch.equal(weights[0][name], weights[2][name]) for name in weights[0] if weights[0][name].dim() > 1)


@pytest.mark.parametrize("preset", TINY)
@pytest.mark.parametrize("param_dtype", ["bf16", "fp16"])
def test_16_bit_weights_are_the_rounded_float32_ones(preset: str, param_dtype: str) -> None:
    """So that precisions can be compared from the same start."""
    wide, narrow = build_model(PRESETS[preset], 1), build_model(PRESETS[preset], 1, param_dtype=param_dtype)
    for (name, a), (_, b) in zip(wide.named_parameters(), narrow.named_parameters(), strict=True):
        assert b.dtype == PARAM_DTYPES[param_dtype]
        assert torch.equal(a.to(b.dtype), b), name


def test_values_are_drawn_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every torch version draws the same normal numbers in 16 bits, rounded."""
    drawn_in = set()
    normal = torch.Tensor.normal_

    def recording(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if tensor.device.type != "meta":
            drawn_in.add(tensor.dtype)
        return normal(tensor, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "normal_", recording)
    build_model(PRESETS["gpt2-nano"], 1, param_dtype="bf16")
    assert drawn_in == {torch.float32}


@pytest.mark.parametrize("preset", TINY)
def test_initial_values_follow_gpt2(preset: str) -> None:
    """Matrices of 0.02, those into the residual stream of 0.02 / sqrt(2 * layers), zero biases, norms of one."""
    shape = PRESETS[preset]
    for name, parameter in build_model(shape, seed=1).named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        elif "norm" in name:
            assert (parameter == 1).all()
        else:
            std = 0.02 / math.sqrt(2 * shape.num_layers) if "project_out" in name else 0.02
            assert parameter.std().item() == pytest.approx(std, rel=0.1)


@pytest.mark.parametrize("preset", TINY)
def test_initial_loss_is_near_that_of_guessing(preset: str) -> None:
    """Logits start small: close to log of the vocabulary."""
    model = build_model(PRESETS[preset], seed=1)
    tokens = torch.arange(64).reshape(2, 32)
    loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten().roll(1))
    assert loss.item() == pytest.approx(math.log(PRESETS[preset].vocab_size), rel=0.05)


@pytest.mark.parametrize("preset", TINY)
def test_checkpointing_changes_no_gradient(preset: str) -> None:
    """And it really runs each block's forward a second time."""
    tokens = torch.arange(24).reshape(2, 12)
    gradients, forwards = [], []
    for checkpointing in (False, True, "reentrant"):
        model = build_model(PRESETS[preset], 1, activation_checkpointing=checkpointing)
        calls: list[int] = []
        model.blocks[0].attention.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        model(tokens).square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
        forwards.append(len(calls))
    assert forwards == [1, 2, 2]
    for plain, *again in zip(*gradients, strict=True):
        for one in again:
            torch.testing.assert_close(one, plain)


@pytest.mark.parametrize("preset", TINY)
def test_reentrant_checkpointing_gives_blocks_behind_a_frozen_embedding_no_gradient(preset: str) -> None:
    """It is torch's own reentrant checkpoint that runs, with what it is known for; the other kind has no such limit."""
    found = {}
    for checkpointing in (True, "reentrant"):
        model = build_model(PRESETS[preset], 1, activation_checkpointing=checkpointing)
        model.token_embedding.requires_grad_(False)
        if hasattr(model, "position_embedding"):
            model.position_embedding.requires_grad_(False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says so too
            model(torch.arange(24).reshape(2, 12)).square().sum().backward()
        found[checkpointing] = {name.split(".")[0] for name, one in model.named_parameters() if one.grad is not None}
    assert found == {True: {"blocks", "final_norm"}, "reentrant": {"final_norm"}}


@pytest.mark.parametrize("preset", TINY)
def test_evaluation_before_training_leaves_no_trace(preset: str) -> None:
    """Tables made in inference mode must serve a backward pass later."""
    model = build_model(PRESETS[preset], 1)
    with torch.inference_mode():
        model(torch.arange(6)[None])
    model(torch.arange(6)[None]).sum().backward()


@pytest.mark.parametrize("amp_dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("preset", TINY)
def test_models_run_under_autocast(preset: str, amp_dtype: torch.dtype) -> None:
    """Forward in 16 bits near the float32 result, gradients in the parameters' float32."""
    model = build_model(PRESETS[preset], 1)
    tokens = torch.arange(24).reshape(2, 12)
    with torch.autocast("cpu", dtype=amp_dtype):
        logits = model(tokens)
    assert logits.dtype == amp_dtype
    torch.testing.assert_close(logits.float(), model(tokens), rtol=0.05, atol=0.02)
    logits.float().sum().backward()
    assert {parameter.grad.dtype for parameter in model.parameters() if parameter.grad is not None} == {torch.float32}


@pytest.mark.parametrize("param_dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("preset", TINY)
def test_models_run_wholly_in_16_bits(preset: str, param_dtype: str) -> None:
    """Without autocast, gradients are 16-bit too, and every parameter has one."""
    model = build_model(PRESETS[preset], 1, param_dtype=param_dtype)
    model(torch.arange(24).reshape(2, 12)).float().sum().backward()
    assert all(parameter.grad.dtype == PARAM_DTYPES[param_dtype] for parameter in model.parameters())


def test_unknown_kind_and_dtype_are_named() -> None:
    """With the known ones."""
    shape = dataclasses.replace(PRESETS["gpt2-nano"], kind="rnn")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind = 'rnn' is not one of gpt2, llama"):
        build_model(shape, seed=0)
    with pytest.raises(ValueError, match="param_dtype = 'int8' is not one of fp32, bf16, fp16"):
        build_model(PRESETS["gpt2-nano"], seed=0, param_dtype="int8")
