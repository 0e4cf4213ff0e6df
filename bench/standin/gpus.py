"""The GPUs that the stand-in can play: the one place where their facts are written.

Sources: NVIDIA's data sheets and white papers of each architecture for the multiprocessors, caches, shared memory and
bus; the capacity is what `cudaMemGetInfo` gives as total on a rented machine of that kind.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from bench.errors import BenchError

NAME_START = "Stand-in"
"""How the name of every GPU of the stand-in begins, for torch, for NVML and so on every screen; and so no table of
peaks or of known machines takes it for the GPU that it plays."""
_MIB = 1024**2
_UUID_START = "574a4ed1-0011-4222-8333-4444555566"
"""UUID of every GPU of the stand-in, without its last two digits, which count the GPUs of the machine."""


@dataclass(frozen=True)
class StandinGpu:
    """State one kind of GPU as CUDA and NVML describe it."""

    name: str
    """As the driver of the real one gives it."""
    major: int
    """Compute capability; with `minor` it decides which kernels run."""
    minor: int
    sms: int
    """Multiprocessors."""
    memory_bytes: int
    """What CUDA can allocate, contexts included [bytes]."""
    shared_memory_per_sm: int
    """[bytes]"""
    shared_memory_per_block: int
    """The most that a kernel may ask for [bytes]."""
    l2_bytes: int
    sm_clock_mhz: int
    """The highest."""
    memory_clock_mhz: int
    memory_bus_bits: int
    threads_per_sm: int
    blocks_per_sm: int
    power_limit_w: int


GPUS: dict[str, StandinGpu] = {
    "a100-40gb": StandinGpu(
        "NVIDIA A100-SXM4-40GB", 8, 0, 108, 40326 * _MIB, 167936, 166912, 41943040, 1410, 1215, 5120, 2048, 32, 400
    ),
    "a100-80gb": StandinGpu(
        "NVIDIA A100-SXM4-80GB", 8, 0, 108, 81051 * _MIB, 167936, 166912, 41943040, 1410, 1593, 5120, 2048, 32, 400
    ),
    "h100-80gb": StandinGpu(
        "NVIDIA H100 80GB HBM3", 9, 0, 132, 81007 * _MIB, 233472, 232448, 52428800, 1980, 2619, 5120, 2048, 32, 700
    ),
    "h200-141gb": StandinGpu(
        "NVIDIA H200", 9, 0, 132, 143156 * _MIB, 233472, 232448, 62914560, 1980, 3201, 6144, 2048, 32, 700
    ),
    "v100-32gb": StandinGpu(
        "Tesla V100-SXM2-32GB", 7, 0, 80, 32501 * _MIB, 98304, 98304, 6291456, 1530, 877, 4096, 2048, 32, 300
    ),
    "a10g-24gb": StandinGpu(
        "NVIDIA A10G", 8, 6, 80, 22515 * _MIB, 102400, 101376, 6291456, 1710, 6251, 384, 1536, 16, 300
    ),
    "rtx-4090-24gb": StandinGpu(
        "NVIDIA GeForce RTX 4090", 8, 9, 128, 24210 * _MIB, 102400, 101376, 75497472, 2520, 10501, 384, 1536, 24, 450
    ),
}


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
    facts = {**asdict(GPUS[key]), "uuid": _UUID_START}
    facts["name"] = f"{NAME_START} {facts['name']}"
    if memory_bytes is not None:
        facts["memory_bytes"] = memory_bytes
    return ";".join(f"{name}={value}" for name, value in facts.items())


def gpu_uuid(index: int) -> str:
    """Give the UUID of one GPU of the machine, as CUDA_VISIBLE_DEVICES takes it."""
    return f"GPU-{_UUID_START}{index:02x}"
