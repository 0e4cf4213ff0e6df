"""Hugging Face models are built as transformers builds them, with seeded weights on their device, and shifted once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench.errors import BenchError
from bench.loop import SummedCrossEntropy, random_layers
from bench.sweep.fields import TrialConfig
from bench.workload.facts import hf_vocabulary, parameter_counts
from bench.workload.micro_batches import lay_out
from bench.workload.models import make_model
from tests.hf_configs import CONFIGS, GPT2, LLAMA

pytest.importorskip("transformers")
pytestmark = [pytest.mark.hf, pytest.mark.slow]

IDS = torch.arange(2 * 12).reshape(2, 12) * 7 % 257


def build(hf: Any, device: str = "cpu", **settings: Any) -> Any:
    model = {"hf": hf} | {name: settings.pop(name) for name in ("attn_implementation",) if name in settings}
    return make_model(TrialConfig.model_validate({"model": model, **settings}), device)


@pytest.mark.parametrize("kind", CONFIGS)
def test_weights_depend_on_the_seed_alone(kind: str) -> None:
    """The generators of the process are left where they were."""
    before = torch.get_rng_state()
    first, again, other = build(CONFIGS[kind]), build(CONFIGS[kind]), build(CONFIGS[kind], seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert first.training
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("kind", CONFIGS)
def test_logits_are_those_of_the_ids_without_a_second_shift(kind: str) -> None:
    """Our data shift the targets: transformers, given unshifted labels, must come to the same loss."""
    model = build(CONFIGS[kind]).eval()
    rows = [[5, 7, 9], [4, 6, 8]]  # three supervised tokens each
    (batch,) = lay_out([[torch.tensor(row).numpy() for row in rows]], "padded", 2)
    assert batch.valid_targets == 4, "the first token of a row is predicted by nothing"
    ours = SummedCrossEntropy()(model, batch)
    labels = torch.tensor(rows)
    theirs = model(input_ids=labels, labels=labels).loss  # shifts inside, and takes the mean over 2 x 2 targets
    torch.testing.assert_close(ours / 4, theirs)


def test_nothing_is_kept_of_past_tokens() -> None:
    """A cache of keys and values would be memory that no training script takes."""
    assert build(LLAMA)(IDS).get("past_key_values") is None


def test_tied_weights_count_once() -> None:
    """GPT-2's head is its embedding; Llama's is not, unless its configuration says so."""
    counts = {tied: parameter_counts(build({**LLAMA, "tie_word_embeddings": tied})) for tied in (False, True)}
    assert counts[False].unique - counts[True].unique == 257 * 32
    assert counts[True].total - counts[True].unique == 257 * 32, "total counts it at both modules"
    gpt2 = build(GPT2)
    assert gpt2.get_output_embeddings().weight is gpt2.get_input_embeddings().weight


@pytest.mark.parametrize("param_dtype", ["bf16", "fp16"])
def test_weights_are_made_in_their_dtype(param_dtype: str) -> None:
    """No float32 copy of a large model is made first; angles of rotary positions stay float32."""
    model = build(LLAMA, param_dtype=param_dtype)
    wanted = {"bf16": torch.bfloat16, "fp16": torch.float16}[param_dtype]
    assert {parameter.dtype for parameter in model.parameters()} == {wanted}
    assert {buffer.dtype for buffer in model.buffers()} == {torch.float32}


def test_large_model_on_the_meta_device_takes_no_memory() -> None:
    """So it is counted before it is built; 7 billion parameters would not fit this machine."""
    large = {"model_type": "llama", "bos_token_id": 0, "eos_token_id": 1}
    assert parameter_counts(build(large, "meta")).unique == 6_738_415_616


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_attention_is_the_one_that_was_asked_for(attention: str) -> None:
    model = build(LLAMA, attn_implementation=attention)
    assert model.config._attn_implementation == attention
    torch.testing.assert_close(model(IDS).logits, build(LLAMA)(IDS).logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [True, "reentrant"])
@pytest.mark.parametrize("config", CONFIGS)
def test_checkpointing_changes_no_gradient_and_runs_blocks_twice(config: str, kind: bool | str) -> None:
    """In transformers' own way, which knows its blocks."""
    gradients, forwards = [], []
    for checkpointing in (False, kind):
        model = build(CONFIGS[config], activation_checkpointing=checkpointing)
        calls: list[int] = []
        block = next(module for name, module in model.named_modules() if name.endswith(".0"))
        inner = next(module for name, module in block.named_modules() if "attention" in name or "attn" in name)
        inner.register_forward_pre_hook(lambda *_, calls=calls: calls.append(1))
        model(IDS).logits.square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
        forwards.append(len(calls))
    assert forwards == [1, 2]
    for plain, again in zip(*gradients, strict=True):
        torch.testing.assert_close(again, plain)


def test_dropout_of_a_configuration_is_active_and_named() -> None:
    """GPT-2's default has some: equality of cuts is then not claimed."""
    assert random_layers(build(GPT2)) == []
    assert random_layers(build({name: GPT2[name] for name in GPT2 if not name.endswith("pdrop")})) != []


def test_vocabulary_is_known_whatever_wraps_the_model() -> None:
    assert hf_vocabulary(build(LLAMA)) == hf_vocabulary(build(LLAMA, lora={"r": 2})) == 257


@pytest.mark.parametrize(
    ("hf", "said"),
    [
        ({"model_type": "no-such"}, "transformers cannot build it: .*no-such"),
        ({"model_type": "t5"}, "transformers cannot build it: .*T5Config"),
        ({**LLAMA, "num_attention_heads": 5}, "transformers cannot build it"),
    ],
)
def test_what_transformers_refuses_is_said_in_words(hf: dict[str, Any], said: str) -> None:
    """One line that begins with the setting."""
    with pytest.raises(BenchError, match=said) as refused:
        build(hf)(IDS)
    assert "\n" not in str(refused.value)


def test_loss_of_one_row_is_that_of_its_tokens_whatever_pads_it() -> None:
    """No mask is given: attention is causal and padding comes last."""
    model = build(LLAMA).eval()
    short, long = [5, 7, 9], [4, 6, 8, 10, 12]
    (both,) = lay_out([[torch.tensor(row).numpy() for row in (short, long)]], "ragged", 8)
    alone = [lay_out([[torch.tensor(row).numpy()]], "ragged", 8)[0] for row in (short, long)]
    summed = SummedCrossEntropy()
    torch.testing.assert_close(summed(model, both), sum(summed(model, one) for one in alone))
