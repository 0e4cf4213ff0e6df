"""The formula counts what torch counts, for every preset, to the last FLOP."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from bench.loop import SummedCrossEntropy
from bench.sweep.presets import PRESETS, ModelShape
from bench.workload.build import build_model
from bench.workload.flops import hardware_flops, model_flops
from bench.workload.micro_batches import MicroBatch

SMALL = ("gpt2-nano", "gpt2-tiny", "gpt2-mini", "llama-nano", "llama-tiny", "llama-mini")


def counted(shape: ModelShape, rows: int, width: int, checkpointing: bool | str = False) -> int:
    """Let torch count forward and backward of one micro-batch, without memory.

    Attention from its definition: torch's counter knows no formula for some fused kernels, a CPU's among them, and
    counts those as 0 (https://github.com/pytorch/pytorch/issues/195460).
    """
    model = build_model(shape, 0, checkpointing, device="meta")
    tokens = torch.empty(rows, width, dtype=torch.int64, device="meta")
    slots = rows * width
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        SummedCrossEntropy()(model, MicroBatch(tokens, tokens, rows, slots, slots, float(slots))).backward()
    return int(counter.get_total_flops())


@pytest.mark.parametrize(
    "preset", [name if name in SMALL else pytest.param(name, marks=pytest.mark.slow) for name in PRESETS]
)
@pytest.mark.parametrize("checkpointing", [False, True, "reentrant"])
def test_formula_is_the_counter(preset: str, checkpointing: bool | str) -> None:
    """Grouped queries, a tied or an untied head, and what checkpointing computes again, which torch ends early."""
    shape, rows, width = PRESETS[preset], 3, 40
    count = counted(shape, rows, width, checkpointing)
    assert hardware_flops(shape, rows * width, rows * width * width, checkpointing) == count
    assert hardware_flops(shape, rows * width, rows * width * width) == model_flops(
        shape, rows * width, rows * width * width
    )


@pytest.mark.parametrize("width", [1, 7, 128])
def test_formula_follows_the_width_of_rows(width: int) -> None:
    """Attention grows with the square of a row, the rest with its tokens."""
    shape = PRESETS["llama-tiny"]
    assert model_flops(shape, 2 * width, 2 * width * width) == counted(shape, 2, width)


def test_ragged_micro_batches_add_up() -> None:
    """Two micro-batches of unequal rows cost what they cost one by one, which no mean width would tell."""
    shape, rows = PRESETS["gpt2-tiny"], ((3, 5), (2, 90))
    slots = sum(count * width for count, width in rows)
    pairs = sum(count * width * width for count, width in rows)
    assert model_flops(shape, slots, pairs) == sum(counted(shape, *row) for row in rows)


@pytest.mark.parametrize("preset", ["gpt2-tiny", "llama-tiny"])
def test_head_counts_always_and_a_lookup_never(preset: str) -> None:
    """A tied and an untied head multiply the same; parameters differ.

    https://github.com/pytorch/torchtitan/issues/452
    """
    tied = PRESETS[preset]
    untied = replace(tied, tied_head=False)
    assert model_flops(tied, 10, 100) == model_flops(untied, 10, 100) == counted(untied, 1, 10)


@pytest.mark.parametrize("preset", [name for name in SMALL if name != "llama-mini"])
def test_formula_is_six_n_and_the_attention_term(preset: str) -> None:
    """6 N + 12 L D T per token, N being the parameters of all matrices but those that are only looked up.

    Kaplan et al. 2020, section 2.1; Chowdhery et al. 2022, appendix B.
    """
    shape, width = PRESETS[preset], 64
    looked_up = {"position_embedding.weight"} | (set() if shape.tied_head else {"token_embedding.weight"})
    parameters = build_model(shape, 0, device="meta").named_parameters()
    elements = sum(one.numel() for name, one in parameters if one.dim() == 2 and name not in looked_up)
    per_token = 6 * elements + 12 * shape.num_layers * shape.width * width
    assert model_flops(shape, 8 * width, 8 * width * width) == 8 * width * per_token


def test_gpt2_small_costs_what_is_published() -> None:
    """nanoGPT's estimate for 124 M parameters at 1024 tokens is 6 N + 12 L D T with the vectors counted: 0.1 % more."""
    shape, width = PRESETS["gpt2-124m"], 1024
    parameters_without_positions = 123_653_376
    published = 6 * parameters_without_positions + 12 * 12 * 768 * 1024
    ours = model_flops(shape, width, width * width) / width
    assert 0 < published / ours - 1 < 0.001
