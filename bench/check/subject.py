"""The model that a proof is made on: a preset, reduced where it is large, or what the user's factory builds."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psutil
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from bench.check.exchange.request import ProofRequest
from bench.check.reduced import reduced
from bench.check.reduced_hf import reduced_config
from bench.errors import BenchError
from bench.loop import batch_coupled_layers, forward_is_random, logits_in, random_layers
from bench.sweep.fields import LoraSpec
from bench.sweep.presets import PRESETS
from bench.workload.blocks import Checkpointing
from bench.workload.build import build_model
from bench.workload.models import require_model, seed_everything
from bench.workload.user_code import call, load_function
from bench.workload.user_errors import NoSuchNameError, described

_COPIES = 13
"""float64 copies of the parameters that a proof holds at its peak: weights, gradients, two moments, snapshots of
model and reference, and temporaries."""
_SHARE_OF_MEMORY = 0.7


@dataclass
class Subject:
    """Hold a model's initial state and what goes with it."""

    model: nn.Module
    """The model at its initial weights, on the CPU; never trained itself."""
    vocab_size: int
    """Classes of its logits, and bound of its input ids."""
    class_weights: Tensor | None = None
    """(C,) weight of each class's targets; None weighs all alike."""
    note: str = ""
    """What was done to the model to make it small; empty when nothing was."""
    seed: int = 7

    def fresh(self) -> nn.Module:
        """Copy the model in float64, in training mode, with random and batch-dependent layers in eval mode."""
        model = copy.deepcopy(self.model).double().train()
        put_to_rest(model)
        return model


def put_to_rest(model: nn.Module) -> None:
    """Put layers known to be random or batch-dependent into eval mode, so that the rest can be proved."""
    for module in model.modules():
        if isinstance(module, _DropoutNd):
            module.p = 0.0
        elif isinstance(module, nn.RNNBase | nn.MultiheadAttention):
            module.dropout = 0.0
        elif isinstance(module, _BatchNorm | nn.RReLU):
            module.eval()
            # A training step may call model.train(), which would wake it up.
            module.train = _stay(module)  # type: ignore[method-assign, assignment]


def _stay(module: nn.Module) -> Callable[[bool], nn.Module]:
    def train(mode: bool = True) -> nn.Module:
        del mode
        return module

    return train


def unequal_layers(subject: Subject) -> list[str]:
    """Name the layers of the model as the user trains it for which accumulation is not a larger batch."""
    model = copy.deepcopy(subject.model).double().train()
    return [*batch_coupled_layers(model), *random_layers(model)]


def is_random_at_rest(subject: Subject) -> bool:
    """Tell whether a forward pass is still random with all known layers in eval mode, as with functional dropout."""
    inputs = torch.zeros((2, 4), dtype=torch.int64)

    def total(model: nn.Module, batch: Tensor) -> Tensor:
        logits: Tensor = logits_in(model(batch))
        return logits.sum()

    return forward_is_random(total, subject.fresh(), inputs)


def reentrant_hint(subject: Subject) -> str:
    """Say so where reentrant checkpointing keeps gradients from layers behind frozen ones; empty where it does not."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        subject.fresh()(torch.zeros((2, 4), dtype=torch.int64))
    if not any("None of the inputs have requires_grad" in str(each.message) for each in said):
        return ""
    return (
        "reentrant checkpointing gives no gradient to layers whose inputs need none, as adapters behind a frozen "
        "embedding: checkpoint with use_reentrant=False"
    )


class TooLarge(Exception):
    """Report that a model is too large to be proved on this machine."""


def subject_of(request: ProofRequest) -> Subject:
    """Build the model of a request, with its adapters.

    The second factor of an adapter begins as zero, which would leave nothing to prove of the first: it is drawn here.

    Raises:
        BenchError: It cannot be built; says why.
        TooLarge: Its float64 state does not fit into the free memory.
    """
    if request.hf is not None:
        subject = _subject_of_hf(request)
    else:
        subject = make_subject(
            request.model, request.seed, request.activation_checkpointing, request.param_dtype, request.model_args
        )
    if request.lora is not None:
        from bench.workload.hf.lora import add_lora

        subject.model = add_lora(subject.model, LoraSpec.model_validate(request.lora), request.seed, "cpu")
        generator = torch.Generator().manual_seed(request.seed)
        with torch.no_grad():
            for parameter in subject.model.parameters():
                if parameter.requires_grad and not parameter.any():
                    parameter.normal_(0.0, 0.02, generator=generator)
    if request.hf is not None:
        from bench.workload.hf.model import checkpoint_blocks

        checkpoint_blocks(subject.model, request.activation_checkpointing, request.model)
    return subject


def _subject_of_hf(request: ProofRequest) -> Subject:
    """Build a Hugging Face model, cut down where it is large and its architecture allows it."""
    from bench.workload.hf.model import build_hf_model, full_config

    assert request.hf is not None, "the request is for such a model"
    whole = full_config(request.hf, request.model)
    small, note = reduced_config(whole)
    options = (request.model, request.seed, request.param_dtype)
    try:
        hollow = build_hf_model(small, *options, "meta", request.attn_implementation)
    except BenchError:  # settings of its own that must go with those that were cut
        small, note = whole, ""
        hollow = build_hf_model(small, *options, "meta", request.attn_implementation)
    refuse_too_large(sum(parameter.numel() for parameter in hollow.parameters()), request.model, note)
    built = build_hf_model(small, *options, "cpu", request.attn_implementation)
    return Subject(built, int(small["vocab_size"]), note=note)


def make_subject(
    model: str,
    seed: int,
    activation_checkpointing: Checkpointing = False,
    param_dtype: str = "fp32",
    args: Mapping[str, Any] | None = None,
    setting: str = "--model",
) -> Subject:
    """Build a preset, or call `package.module:function` with its arguments.

    A function returns a model, or a mapping with the keys model and class_weights. The model maps inputs (B, T) int64
    to logits (B, T, C).

    Raises:
        BenchError: The factory cannot be imported, raises, or returns the wrong thing.
        TooLarge: Its float64 state does not fit into the free memory.
    """
    if ":" in model:
        return _subject_of_user(model, seed, args or {}, setting)
    if model not in PRESETS:
        presets = ", ".join(PRESETS)
        raise NoSuchNameError(f"--model = {model} is neither a preset ({presets}) nor package.module:function.")
    shape, note = reduced(PRESETS[model])
    hollow = build_model(shape, seed, activation_checkpointing, param_dtype, device="meta")
    refuse_too_large(sum(parameter.numel() for parameter in hollow.parameters()), model, note)
    built = build_model(shape, seed, activation_checkpointing, param_dtype)
    return Subject(built, shape.vocab_size, note=note)


def _subject_of_user(reference: str, seed: int, args: Mapping[str, Any], setting: str) -> Subject:
    factory = load_function(reference, setting)
    seed_everything(seed)
    try:
        built: Any = call(factory, f"{setting} = {reference}", (), args)
    except BenchError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise BenchError(f"{setting} = {reference} raised {described(error)}") from error
    parts = built if isinstance(built, dict) else {"model": built}
    model, class_weights = parts.get("model"), parts.get("class_weights")
    require_model(model if isinstance(built, dict) else built, f"{setting} = {reference}")
    assert isinstance(model, nn.Module), "it was required"
    if class_weights is not None and not isinstance(class_weights, Tensor):
        raise BenchError(f"{setting} = {reference}: class_weights is {type(class_weights).__name__}, not a tensor.")
    parameters = [parameter.numel() for parameter in model.parameters()]
    refuse_too_large(sum(parameters), reference, "")
    return Subject(model.cpu(), _classes(model, f"{setting} = {reference}"), class_weights)


def _classes(model: nn.Module, what: str) -> int:
    """Ask the model how many classes it tells apart."""
    inputs = torch.zeros((2, 3), dtype=torch.int64)
    try:
        with torch.no_grad():
            outputs: Any = model(inputs)
    except Exception as error:
        raise BenchError(f"{what}: the model fails on int64 inputs of shape (2, 3): {described(error)}") from error
    logits = logits_in(outputs)
    if not isinstance(logits, Tensor) or logits.shape[:2] != inputs.shape or logits.dim() != 3:
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(outputs).__name__
        raise BenchError(f"{what}: the model returned {shape} for inputs of shape (2, 3), not logits (2, 3, C).")
    return int(logits.shape[-1])


def refuse_too_large(parameters: int, name: str, note: str) -> None:
    """Refuse a model whose float64 state does not fit into the free memory.

    Raises:
        TooLarge: It does not.
    """
    needed, free = parameters * 8 * _COPIES, psutil.virtual_memory().available
    if needed > _SHARE_OF_MEMORY * free:
        raise TooLarge(
            f"{name}{f' ({note})' if note else ''} has {parameters:,} parameters: its proof in float64 needs about "
            f"{needed / 2**30:.0f} GiB, but only {free / 2**30:.0f} GiB of memory are free"
        )
