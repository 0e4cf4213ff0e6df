"""What is to be proved, as a file between the driver and a rank. No torch here."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from bench.record.handover import read_handover
from bench.sweep.fields import TrialConfig
from bench.sweep.hf.configuration import hf_config
from bench.sweep.models import has_own_code, model_name, own_functions
from bench.workload.own_files import own_code_hash

FORMAT = 1
MOST_RANKS = 2
"""Ranks proved in place of any larger number."""


@dataclass(frozen=True)
class ProofRequest:
    """State one configuration to prove: all that matters for the arithmetic of an update, and nothing else."""

    model: str = "gpt2-nano"
    """Preset, or `package.module:function` that builds a model."""
    model_args: dict[str, Any] | None = None
    """What such a function is called with."""
    hf: dict[str, Any] | None = None
    """Settings of a Hugging Face configuration; null for another model."""
    attn_implementation: str | None = None
    """Of such a model."""
    lora: dict[str, Any] | None = None
    """Settings of LoRA; null where the model itself is trained."""
    own: dict[str, Any] | None = None
    """Model, data and loss as the trial names them, where data or loss are the user's own; null for tokens."""
    user_code: str | None = None
    """Hash of the files of the user's functions."""
    step: str | None = None
    """`package.module:function` that trains; null for the loop of `bench`."""
    amp_mode: str = "fp32"
    param_dtype: str = "fp32"
    device: str = "cpu"
    """Where the configured precision is proved; float64 runs on the CPU."""
    world_size: int = 1
    """Ranks of the trial; two stand for more."""
    window_mode: str = "buffered"
    gradient_sync: str = "last"
    optimizer: str = "adamw"
    optimizer_implementation: str = "default"
    weight_decay: float = 0.1
    activation_checkpointing: Literal["reentrant"] | bool = False
    """Or reentrant."""
    seed: int = 1337
    working_directory: str = ""
    """Folder the user's modules are found from; empty where there are none."""
    time_limit_s: float = 60.0
    """A proof that takes longer is NOT PROVEN [s]."""

    @property
    def ranks(self) -> int:
        """Count the processes that prove it."""
        return min(self.world_size, MOST_RANKS)

    def key(self) -> str:
        """Name the request: 12 hexadecimal digits.

        The time limit, the folder and how many ranks two stand for do not matter.
        """
        settings = asdict(self) | {"world_size": self.ranks}
        del settings["time_limit_s"], settings["working_directory"]
        for name in ("model_args", "own", "user_code", "hf", "attn_implementation", "lora"):
            if settings[name] is None:  # as before there were any
                del settings[name]
        if self.hf is not None:
            del settings["model"]  # where the file lies does not matter
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]

    def label(self) -> str:
        """Write the settings that tell configurations apart, such as gpt2-mini, bf16, world size 2."""
        parts = [self.model, self.amp_mode, f"world size {self.world_size}"]
        if self.step is not None:
            ranks = f", world size {self.world_size}" if self.world_size > 1 else ""
            return f"{self.step} on {self.model}{ranks}"
        defaults = ProofRequest()
        parts += [
            f"{words} {getattr(self, name)}"
            for name, words in (
                ("param_dtype", "weights in"),
                ("window_mode", "windows"),
                ("gradient_sync", "gradient sync"),
                ("optimizer", "optimizer"),
                ("optimizer_implementation", "implementation"),
            )
            if getattr(self, name) != getattr(defaults, name)
        ]
        if self.lora is not None:
            parts.append(f"LoRA r {self.lora['r']}")
        if self.attn_implementation is not None:
            parts.append(f"attention {self.attn_implementation}")
        reentrant = "reentrant " if self.activation_checkpointing == "reentrant" else ""
        checkpointing = [f"{reentrant}activation checkpointing"] if self.activation_checkpointing else []
        return ", ".join(parts + checkpointing)

    def write(self, path: Path, seconds_left: float) -> None:
        """Write the file for a proof that must have ended in so many seconds, whatever starting it takes of them."""
        until = {"until_monotonic_s": time.monotonic() + seconds_left}
        path.write_text(json.dumps({"format": FORMAT} | asdict(self) | until, indent=1))

    @classmethod
    def read(cls, path: Path) -> ProofRequest:
        """Read the file, in a process of the same machine; the time limit becomes what is left of it, at least 0.

        Raises:
            ValueError: It was written by another version of this tool.
        """
        document = read_handover(path, FORMAT)
        left_s = document.pop("until_monotonic_s") - time.monotonic()
        return cls(**document | {"time_limit_s": max(0.0, min(document["time_limit_s"], left_s))})


def request_of(config: TrialConfig, time_limit_s: float) -> ProofRequest:
    """Take from a resolved trial what matters for its proof; micro-batch size and length do not."""
    return ProofRequest(
        model=model_name(config.model),
        model_args=config.model.args,
        hf=None if config.model.hf is None else hf_config(config.model.hf),
        attn_implementation=config.model.attn_implementation,
        lora=None if config.lora is None else config.lora.model_dump(mode="json"),
        own=_own(config),
        user_code=own_code_hash(own_functions(config).values()),
        working_directory=os.fspath(Path.cwd()) if has_own_code(config) else "",
        amp_mode=config.amp_mode,
        param_dtype=config.param_dtype,
        device=config.device,
        world_size=config.world_size,
        window_mode=config.window_mode,
        gradient_sync=config.gradient_sync,
        optimizer="adamw" if config.optimizer.factory is not None else config.optimizer.name,
        optimizer_implementation=config.optimizer.implementation,
        weight_decay=config.optimizer.weight_decay,
        activation_checkpointing=config.activation_checkpointing,
        time_limit_s=time_limit_s,
    )


def _own(config: TrialConfig) -> dict[str, Any] | None:
    """Take what makes model, batches and loss; null where data and loss are ours."""
    if config.data.factory is None and config.loss.factory is None:
        return None
    names = {"model", "data", "loss", "seq_len", "seed", "param_dtype", "activation_checkpointing"}
    return config.model_dump(mode="json", include=names, exclude_none=True)
