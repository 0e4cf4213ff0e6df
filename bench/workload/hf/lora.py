"""Put LoRA adapters into a model by peft: only they are trained.

Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models".
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

from bench.errors import BenchError
from bench.sweep.fields import LoraSpec
from bench.sweep.hf.configuration import INSTALL
from bench.sweep.hf.values import ALL_LINEAR
from bench.workload.hf.model import seeded
from bench.workload.user_errors import described

_HEADS = ("head", "lm_head")
"""What models call the layer that makes logits, which all-linear leaves as it is, as peft does."""


def add_lora(model: nn.Module, lora: LoraSpec, seed: int, device: torch.device | str) -> nn.Module:
    """Freeze a model and put adapters beside its linear layers, as `peft.get_peft_model` does.

    Adapters are stored in float32 where the weights are in 16 bits, which is peft's default. B begins as zero, so the
    model computes what it did.

    Raises:
        BenchError: peft is missing, or no layer has the names that were given; says which there are.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise BenchError(f"lora needs the package peft: {INSTALL} ({error})") from error
    wanted = [name.strip() for name in lora.target_modules.split(",")]
    is_all = wanted == [ALL_LINEAR]
    options: dict[str, Any] = {"target_modules": _linear_layers(model) if is_all else wanted}
    try:
        with seeded(seed, device), warnings.catch_warnings():
            # peft sets this itself for the layers of GPT-2, and says so for each.
            warnings.filterwarnings("ignore", "fan_in_fan_out is set to", UserWarning)
            adapted = get_peft_model(
                model, LoraConfig(r=lora.r, lora_alpha=lora.alpha, lora_dropout=lora.dropout, **options)
            )
    except ValueError as error:
        there = ", ".join(sorted({name.rsplit(".", 1)[-1] for name in _linear_layers(model)}))
        raise BenchError(
            f"lora.target_modules = {lora.target_modules}: {described(error)}. Linear layers of this model: {there}."
        ) from error
    adapted.train()
    return adapted  # type: ignore[no-any-return]


def _linear_layers(model: nn.Module) -> list[str]:
    """Name the linear layers but the one that makes logits; GPT-2's of transformers are called Conv1D."""
    head = getattr(model, "get_output_embeddings", lambda: None)()
    return [
        name
        for name, module in model.named_modules()
        if (isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D")
        and module is not head
        and name.rsplit(".", 1)[-1] not in _HEADS
    ]
