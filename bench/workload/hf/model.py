"""Build a causal language model from a Hugging Face configuration: seeded weights, straight on the device, no hub."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from bench.errors import BenchError
from bench.sweep.hf.configuration import INSTALL
from bench.workload.blocks import Checkpointing
from bench.workload.build import PARAM_DTYPES


def build_hf_model(
    config: Mapping[str, Any],
    name: str,
    seed: int,
    param_dtype: str = "fp32",
    device: torch.device | str = "cpu",
    attn_implementation: str | None = None,
) -> nn.Module:
    """Build the model whose forward maps ids (B, T) int64 to an output with `logits` (B, T, V), in training mode.

    Weights are drawn by transformers' own rules, on the device and in their dtype, so that no copy of them is ever on
    the host; they depend on the configuration, the seed, the dtype and the kind of device. The global random generators
    are left alone. Keys and values of past tokens are not kept: training has no use for them. Dropout is what the
    configuration says. On the `meta` device there are no weights.

    Args:
        config: Settings, model_type among them.
        name: What a message calls it.
        seed: Seed of the weights.
        param_dtype: Key of `PARAM_DTYPES`.
        device: Where the weights are made.
        attn_implementation: transformers' word, such as sdpa; None lets it choose.

    Raises:
        BenchError: transformers is missing, or cannot make a causal language model of the configuration; says why.
    """
    options: dict[str, Any] = {} if attn_implementation is None else {"attn_implementation": attn_implementation}
    with _refusals_in_words(name):
        from transformers import AutoModelForCausalLM

        made = _made(config)
        with seeded(seed, device), torch.device(device):
            model = AutoModelForCausalLM.from_config(made, dtype=PARAM_DTYPES[param_dtype], **options)
    model.train()
    return model  # type: ignore[no-any-return]


def full_config(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Give all settings of a configuration, those that it leaves to transformers too.

    Raises:
        BenchError: transformers is missing, or does not know such a configuration.
    """
    with _refusals_in_words(name):
        settings: dict[str, Any] = _made(config).to_dict()
    return settings


def _made(config: Mapping[str, Any]) -> Any:
    """Let transformers read the settings, for training."""
    from transformers import AutoConfig

    made = AutoConfig.for_model(config["model_type"], **{key: config[key] for key in config if key != "model_type"})
    made.use_cache = False
    return made


@contextmanager
def _refusals_in_words(name: str) -> Iterator[None]:
    """Say what transformers refuses; what runs out of memory stays what it is."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise BenchError(f"model.hf = {name}: {_first_lines(error)}") from error
        raise BenchError(f"model.hf = {name} needs the package transformers: {INSTALL}") from error
    except Exception as error:  # of many classes: a package that is missing, a setting of the wrong type, sizes
        if "out of memory" in str(error).lower():
            raise
        raise BenchError(f"model.hf = {name}: transformers cannot build it: {_first_lines(error)}") from error


def checkpoint_blocks(model: nn.Module, checkpointing: Checkpointing, name: str) -> None:
    """Let the model's blocks be run again in the backward, in transformers' own way, as its Trainer asks for it.

    Raises:
        BenchError: The architecture has no blocks that can be.
    """
    if not checkpointing:
        return
    options = {"use_reentrant": checkpointing == "reentrant"}
    owner: Any = model
    try:
        if hasattr(owner, "activation_checkpointing_enable"):  # transformers 5.23
            owner.activation_checkpointing_enable(activation_checkpointing_kwargs=options)
        else:
            owner.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
    except ValueError as error:
        raise BenchError(
            f"activation_checkpointing does not work with model.hf = {name}: {_first_lines(error)}"
        ) from error


@contextmanager
def seeded(seed: int, device: torch.device | str) -> Iterator[None]:
    """Draw from this seed inside, and leave torch's generators as they were [this process]."""
    device = torch.device(device)
    devices = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of packages about each other
        torch.manual_seed(seed)
        yield


def _first_lines(error: BaseException) -> str:
    """Give the beginning of an error's text on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}{' ...' if len(text) > 300 else ''}"
