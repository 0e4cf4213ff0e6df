"""The GPUs that the stand-in can play, as the C side reads them; their facts stand in `bench/gpus.py`."""

from __future__ import annotations

from dataclasses import asdict

from bench.errors import BenchError
from bench.gpus import TABLE, Silicon

NAME_START = "Stand-in"
"""How the name of every GPU of the stand-in begins, for torch, for NVML and so on every screen; and so no table of
peaks or of known machines takes it for the GPU that it plays."""
_UUID_START = "574a4ed1-0011-4222-8333-4444555566"
"""UUID of every GPU of the stand-in, without its last two digits, which count the GPUs of the machine."""

GPUS: dict[str, Silicon] = {gpu.key: gpu.silicon for gpu in TABLE if gpu.silicon is not None}
"""By key, such as `a100-80gb`."""
_CAPABILITIES = {gpu.key: gpu.capability for gpu in TABLE}


def gpu_facts(key: str, memory_bytes: int | None = None) -> str:
    """Write the facts of a GPU as the C side reads them: `name=...;uuid=...;major=8;...`.

    Args:
        key: such as `a100-80gb`.
        memory_bytes: another capacity than the real one [bytes].

    Raises:
        BenchError: There is no such GPU here, or the capacity is not positive.
    """
    if key not in GPUS:
        raise BenchError(f"gpu: the stand-in has no '{key}'; it has {', '.join(sorted(GPUS))}")
    if memory_bytes is not None and memory_bytes <= 0:
        raise BenchError(f"memory_bytes: a GPU's memory is more than {memory_bytes} bytes")
    major, minor = _CAPABILITIES[key]
    facts = {**asdict(GPUS[key]), "major": major, "minor": minor, "uuid": _UUID_START}
    facts["name"] = f"{NAME_START} {facts['name']}"
    if memory_bytes is not None:
        facts["memory_bytes"] = memory_bytes
    return ";".join(f"{name}={value}" for name, value in facts.items())


def gpu_uuid(index: int) -> str:
    """Give the UUID of one GPU of the machine, as CUDA_VISIBLE_DEVICES takes it."""
    return f"GPU-{_UUID_START}{index:02x}"
