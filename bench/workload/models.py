"""Build the model that a trial names, whatever its source: a preset, or the user's own function."""

from __future__ import annotations

import random

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from bench.errors import BenchError
from bench.sweep.fields import TrialConfig
from bench.sweep.hf.configuration import hf_config, hf_name
from bench.sweep.models import shape_of
from bench.workload.build import PARAM_DTYPES, build_model
from bench.workload.user_code import call, load_function


def make_model(config: TrialConfig, device: torch.device | str) -> nn.Module:
    """Build the model of a trial on its device, in training mode [one rank].

    A new source of models is a case here.

    Raises:
        BenchError: The user's function cannot be imported or called, or returns something else than a model to train.
    """
    checkpointing, lora = config.activation_checkpointing, config.lora
    model = _make_bare(config, device)
    if lora is not None:
        from bench.workload.hf.lora import add_lora

        model = add_lora(model, lora, config.seed, device)
    if config.model.hf is not None and checkpointing:
        from bench.workload.hf.model import checkpoint_blocks

        checkpoint_blocks(model, checkpointing, hf_name(config.model.hf))
    return model


def _make_bare(config: TrialConfig, device: torch.device | str) -> nn.Module:
    """Build the model as its source makes it."""
    shape, hf = shape_of(config.model), config.model.hf
    if shape is not None:
        return build_model(shape, config.seed, config.activation_checkpointing, config.param_dtype, device=device)
    if hf is not None:
        from bench.workload.hf.model import build_hf_model

        attention = config.model.attn_implementation
        return build_hf_model(hf_config(hf), hf_name(hf), config.seed, config.param_dtype, device, attention)
    assert config.model.factory is not None, "the trial is checked"
    model = call_factory(config.model.factory, config.model.args or {}, config.seed)
    if config.param_dtype != "fp32":
        model = model.to(PARAM_DTYPES[config.param_dtype])
    return model.to(device).train()


def call_factory(factory: str, args: dict[str, object], seed: int) -> nn.Module:
    """Let the user's function build a model on the CPU, the generators of torch, numpy and Python seeded before.

    So the weights are the same on every rank and in every launch of this seed.

    Raises:
        BenchError: It cannot be imported or called, or returns something else than a model to train.
    """
    what = f"model.factory = {factory}"
    function = load_function(factory, "model.factory")
    seed_everything(seed)
    model = call(function, what, (), args)
    require_model(model, what)
    return model  # type: ignore[no-any-return]


def seed_everything(seed: int) -> None:
    """Seed the generators that the user's code may draw from: torch's on all devices, numpy's and Python's."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - it is the one that older code draws from
    random.seed(seed)


def require_model(model: object, what: str) -> None:
    """Refuse what cannot be trained as a model here.

    Raises:
        BenchError: Says what came, and what is expected.
    """
    if not isinstance(model, nn.Module):
        raise BenchError(f"{what} returned {type(model).__name__}, not a torch.nn.Module.")
    if isinstance(model, DistributedDataParallel | DataParallel):
        raise BenchError(
            f"{what} returned a model wrapped in {type(model).__name__}. Return the bare model: ranks are joined here."
        )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise BenchError(f"{what} returned a model without a trainable parameter: there is nothing to train.")
    hollow = [name for name, tensor in model.named_parameters() if tensor.device.type == "meta"]
    if hollow:
        raise BenchError(
            f"{what} returned parameters without values, on the meta device: {', '.join(hollow[:3])}. Return a model "
            "whose weights are made."
        )
