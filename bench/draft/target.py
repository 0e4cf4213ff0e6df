"""The machine that a sweep file is written for: a CPU, or GPUs of one kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bench.errors import BenchError, EnvironmentFault
from bench.gpus import TABLE
from bench.sweep.expand import MachineFacts
from bench.sweep.keys import closest
from bench.units import counted


def known_gpus() -> dict[str, bool]:
    """Say of each kind of GPU, by its key, whether it computes in bf16 and TF32: both came with Ampere."""
    return {gpu.key: gpu.capability >= (8, 0) for gpu in sorted(TABLE, key=lambda gpu: gpu.key)}


@dataclass(frozen=True)
class Target:
    """Hold what a machine decides about a sweep file."""

    device: Literal["cpu", "cuda"]
    gpus: int = 0
    """GPUs; 0 for a CPU."""
    kind: str | None = None
    """Key of the kind of GPU, such as a100-80gb; null where none was named."""
    has_ampere: bool = True
    """Whether the GPUs compute in bf16 and TF32."""
    is_here: bool = False
    """Whether it is the machine that this runs on."""

    @property
    def name(self) -> str:
        """Name it in a file's name: a100-80gb, gpu, cpu."""
        return self.kind or ("gpu" if self.gpus else "cpu")

    @property
    def words(self) -> str:
        """Name it in a sentence: 8 x a100-80gb, 8 GPUs, a CPU."""
        if not self.gpus:
            return "a CPU"
        return f"{self.gpus} x {self.kind}" if self.kind else counted(self.gpus, "GPU")

    @property
    def amp_modes(self) -> dict[str, str]:
        """Say of each AMP mode that is worth a trial there what it is, after its name."""
        fp32 = {"fp32": "is the reference"}
        bf16 = {"bf16": "is autocast"}
        if not self.gpus:
            return fp32 | bf16
        fp16 = {"fp16": "is autocast with a gradient scaler"}
        return fp32 | ({"tf32": "rounds the factors of products"} | bf16 if self.has_ampere else {}) | fp16


def find_target(
    device: Literal["cpu", "cuda"] | None,
    kind: str | None,
    gpus: int | None,
    look: Callable[[set[str]], MachineFacts],
) -> Target:
    """Take the machine as told, or look at this one for what was not told.

    Args:
        device: what to run on; null for GPUs where there are any.
        kind: key of a kind of GPU; null for this machine's.
        gpus: number of GPUs; null for one of a named kind, and for all that are usable here.
        look: tells what this machine can run, such as `machine_facts`.

    Raises:
        BenchError: The kind is unknown, or GPUs are named for a CPU.
        EnvironmentFault: GPUs here are asked for or visible, and torch cannot use them.
    """
    if device == "cpu":
        if kind is not None or gpus is not None:
            named = "--gpus" if kind is None else "--gpu"
            raise BenchError(f"--device cpu takes no GPU, but {named} is given. Remove one of the two.")
        return Target("cpu", is_here=True)
    if kind is not None:
        return Target("cuda", gpus or 1, kind, _has_ampere(kind))
    if gpus is not None:
        return _with_gpus(gpus, look)
    try:
        facts = look({device or "auto"})
    except EnvironmentFault as fault:
        raise EnvironmentFault(f"{fault} To write for another machine, name it: --gpu a100-80gb --gpus 8.") from None
    return Target(facts.device, facts.cuda_device_count, None, facts.bf16_supported, is_here=True)


def _has_ampere(kind: str) -> bool:
    known = known_gpus()
    if kind not in known:
        near = closest(kind, known)
        advice = f"Did you mean {near}?" if near else "Use one of these, or --gpus alone."
        raise BenchError(f"--gpu = {kind} is not one of {', '.join(known)}. {advice}")
    return known[kind]


def _with_gpus(gpus: int, look: Callable[[set[str]], MachineFacts]) -> Target:
    """Take GPUs of the kind that is here; where there is none, of one with every mode, as `bench plan --gpus` does."""
    try:
        facts = look({"auto"})
    except EnvironmentFault:  # no fault of a file that is for another machine
        facts = MachineFacts("cpu", 0)
    here = facts.cuda_device_count
    return Target("cuda", gpus, None, facts.bf16_supported or not here, is_here=gpus <= here)
