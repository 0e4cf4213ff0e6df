"""Build a preset's model with seeded weights, straight on its device; name the forms of its optimizer."""

from __future__ import annotations

import math

import torch
from torch import nn

from bench.sweep.presets import ModelShape
from bench.workload.blocks import Checkpointing
from bench.workload.gpt2 import GPT2
from bench.workload.llama import Llama

PARAM_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Names of sweep files -> dtype in which the weights, and so gradients and optimizer state, are stored."""

IMPLEMENTATION_FLAGS: dict[str, dict[str, bool]] = {
    "default": {},
    "for_loop": {"foreach": False, "fused": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
"""`optimizer.implementation` of sweep files -> torch's flags, of which it takes one; none: torch chooses."""

_INITIAL_STD = 0.02  # GPT-2's; Llama's authors do not say theirs


def build_model(
    shape: ModelShape,
    seed: int,
    activation_checkpointing: Checkpointing = False,
    param_dtype: str = "fp32",
    device: torch.device | str = "cpu",
) -> nn.Module:
    """Build a model whose forward maps inputs (B, T) int64 to logits (B, T, V).

    Weights depend on the shape, the seed and the kind of device alone: a 16-bit model holds the rounded weights of the
    float32 one. They are made in place, so that at most one extra float32 copy of the largest table lives beside the
    model; the global random generators are left alone. On the `meta` device there are no weights.

    Args:
        shape: The preset's shape.
        seed: Seed of the weights.
        activation_checkpointing: Keep only the inputs of blocks for the backward pass and run their forward again;
            reentrant does so by torch's older way.
        param_dtype: Key of `PARAM_DTYPES`.
        device: Where the weights are made.

    Raises:
        ValueError: Unknown kind of model or dtype.
    """
    kinds: dict[str, type[GPT2 | Llama]] = {"gpt2": GPT2, "llama": Llama}
    if shape.kind not in kinds:
        raise ValueError(f"model kind = {shape.kind!r} is not one of {', '.join(kinds)}.")
    if param_dtype not in PARAM_DTYPES:
        raise ValueError(f"param_dtype = {param_dtype!r} is not one of {', '.join(PARAM_DTYPES)}.")
    with torch.device("meta"):
        model = kinds[shape.kind](shape, activation_checkpointing).to(PARAM_DTYPES[param_dtype])
    device = torch.device(device)
    if device.type == "meta":
        return model
    model.to_empty(device=device)
    init_weights(model, num_layers=shape.num_layers, generator=torch.Generator(device).manual_seed(seed))
    return model


@torch.no_grad()
def init_weights(model: nn.Module, num_layers: int, generator: torch.Generator) -> None:
    """Give every parameter its initial value, as GPT-2: normal(0, 0.02) matrices, zero biases, norms of one.

    The layers that write to the residual stream (`project_out`) are scaled by 1/sqrt(2 * layers), so that its variance
    does not grow with depth. Values are drawn in float32 and rounded to the parameter's dtype: not every torch version
    draws the same numbers in 16 bits.
    """
    for name, parameter in model.named_parameters():
        if name.endswith(".bias"):
            parameter.zero_()
        elif parameter.dim() == 1:
            parameter.fill_(1.0)
        else:
            std = _INITIAL_STD / math.sqrt(2 * num_layers) if name.endswith("project_out.weight") else _INITIAL_STD
            draw = parameter if parameter.dtype == torch.float32 else torch.empty_like(parameter, dtype=torch.float32)
            draw.normal_(0.0, std, generator=generator)
            if draw is not parameter:
                parameter.copy_(draw)
