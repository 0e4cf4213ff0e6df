"""The one table of GPUs: how NVML names them, what they can do at most, and what a stand-in needs. No torch.

A GPU that is not listed, a slice of one (MIG), a virtual or a special edition has no peak: null, never a guess.
NVIDIA's sheets since 2020 print tensor-core figures with 2:4 sparsity, alone or beside the dense ones; what stands here
is dense, half of those. fp16 and bf16 are those that add up in fp32, as torch's matrix products do; on GeForce cards
that is half of the figure with fp16 sums. fp32 is without tensor cores.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Silicon:
    """State what a stand-in tells of one GPU as CUDA and NVML would.

    Sources: NVIDIA's data sheets and white papers of each architecture for the multiprocessors, caches, shared memory
    and bus; the capacity is what `cudaMemGetInfo` gives as total on a rented machine of that kind.
    """

    name: str
    """As the driver of the real one gives it."""
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


@dataclass(frozen=True)
class Gpu:
    """State one kind of GPU; null where it has no such unit, or no document says."""

    key: str
    """Name in settings: kind and capacity as sold, such as a100-80gb."""
    names: str
    """Pattern of the whole name, as torch and NVML tell it, without the maker's. Of full, unsliced boards."""
    architecture: str
    capability: tuple[int, int]
    """Compute capability, major and minor; it decides which kernels run."""
    fp32: float | None
    """Dense peak without tensor cores [TFLOP/s]."""
    tf32: float | None
    bf16: float | None
    fp16: float | None
    source: str
    """The maker's document, and how the dense figures are read from it; or why there are none."""
    silicon: Silicon | None = None
    """What a stand-in needs; null where none plays this GPU."""

    @property
    def capacity_gb(self) -> int:
        """Give the memory as sold [GB]."""
        return int(self.key.rsplit("-", 1)[1].removesuffix("gb"))


_MIB = 1024**2
_SPARSE = "sheet counts sparsity, halved"
_BOTH = "sheet has dense | sparse"
_A100 = ("Ampere", (8, 0), 19.5, 156, 312, 312, f"NVIDIA A100 data sheet, all four; {_BOTH}")
_HOPPER = ("Hopper", (9, 0))
_H_SXM = (67, 494.5, 989.5, 989.5)
_GH200 = (*_HOPPER, *_H_SXM, f"NVIDIA GH200 data sheet; {_SPARSE}")
_V100_SXM2 = ("Volta", (7, 0), 15.7, None, None, 125, "NVIDIA V100 data sheet, SXM2; no sparsity")
_V100_PCIE = ("Volta", (7, 0), 14, None, None, 112, "NVIDIA V100 data sheet, PCIe; no sparsity")
_L4X = ("Ada", (8, 9))
_GA10X = ("Ampere", (8, 6))
_GA102_PAPER = f"NVIDIA GA102 architecture white paper, appendix A; {_BOTH}"

TABLE: tuple[Gpu, ...] = (
    Gpu(
        *("b300-288gb", r"B300 SXM6 AC", "Blackwell", (10, 3), 75, 1125, 2250, 2250),
        "NVIDIA HGX data sheet, HGX B300: 36 PFLOPS in 16 bits, 18 in TF32, 0.6 in FP32 of 8 GPUs; an eighth; "
        + _SPARSE,
    ),
    Gpu(
        *("gb200-186gb", r"GB200", "Blackwell", (10, 0), 80, 1250, 2500, 2500),
        "NVIDIA GB200 NVL72 data sheet, superchip: 10 PFLOPS in 16 bits, 5 in TF32, 0.16 in FP32 of 2 GPUs; a half; "
        + _SPARSE,
    ),
    Gpu(
        *("b200-180gb", r"B200", "Blackwell", (10, 0), 75, 1100, 2250, 2250),
        f"NVIDIA Blackwell data sheet, HGX B200, one GPU; {_SPARSE}",
    ),
    Gpu("gh200-96gb", r"GH200 (120GB|480GB)", *_GH200),
    Gpu("gh200-144gb", r"GH200 144G( HBM3e)?", *_GH200),
    Gpu(
        *("h200-141gb", r"H200", *_HOPPER, *_H_SXM, f"NVIDIA H200 data sheet, SXM; {_SPARSE}"),
        Silicon("NVIDIA H200", 132, 143156 * _MIB, 233472, 232448, 62914560, 1980, 3201, 6144, 2048, 32, 700),
    ),
    Gpu(
        *("h200-nvl-141gb", r"H200 NVL", *_HOPPER, 60, 417.5, 835.5, 835.5),
        f"NVIDIA H200 data sheet, NVL; {_SPARSE}",
    ),
    Gpu(
        *("h100-80gb", r"H100 80GB HBM3", *_HOPPER, *_H_SXM, f"NVIDIA H100 data sheet, SXM; {_SPARSE}"),
        Silicon("NVIDIA H100 80GB HBM3", 132, 81007 * _MIB, 233472, 232448, 52428800, 1980, 2619, 5120, 2048, 32, 700),
    ),
    Gpu("h100-nvl-94gb", r"H100 NVL", *_HOPPER, 60, 417.5, 835.5, 835.5, f"NVIDIA H100 data sheet, NVL; {_SPARSE}"),
    Gpu(
        *("h100-pcie-80gb", r"H100 PCIe", *_HOPPER, 51, 378, 756.5, 756.5),
        f"NVIDIA H100 data sheet of 2022, PCIe; {_SPARSE}",
    ),
    Gpu(
        *("a100-40gb", r"A100-(SXM4|PCIE)-40GB", *_A100),
        Silicon("NVIDIA A100-SXM4-40GB", 108, 40326 * _MIB, 167936, 166912, 41943040, 1410, 1215, 5120, 2048, 32, 400),
    ),
    Gpu(
        *("a100-80gb", r"A100(-SXM4-80GB| 80GB PCIe)", *_A100),
        Silicon("NVIDIA A100-SXM4-80GB", 108, 81051 * _MIB, 167936, 166912, 41943040, 1410, 1593, 5120, 2048, 32, 400),
    ),
    Gpu(
        *("a100-64gb", r"A100-SXM-64GB", "Ampere", (8, 0), None, None, None, None),
        "made for one machine, with more multiprocessors than the A100 of NVIDIA's sheet; no sheet of its own is known",
    ),
    Gpu("a30-24gb", r"A30", "Ampere", (8, 0), 10.3, 82, 165, 165, f"NVIDIA A30 data sheet; {_BOTH}"),
    Gpu("a40-48gb", r"A40", *_GA10X, 37.4, 74.8, 149.7, 149.7, f"NVIDIA A40 data sheet; {_BOTH}"),
    Gpu("a10-24gb", r"A10", *_GA10X, 31.2, 62.5, 125, 125, f"NVIDIA A10 data sheet; {_BOTH}"),
    Gpu(
        *("a10g-24gb", r"A10G", *_GA10X, 35, 35, 70, 70, f"NVIDIA A10G data sheet, published by AWS; {_BOTH}"),
        Silicon("NVIDIA A10G", 80, 22515 * _MIB, 102400, 101376, 6291456, 1710, 6251, 384, 1536, 16, 300),
    ),
    Gpu("l40s-48gb", r"L40S", *_L4X, 91.6, 183, 362, 362, f"NVIDIA L40S data sheet; {_BOTH}"),
    Gpu("l40-48gb", r"L40", *_L4X, 90.5, 90.5, 181, 181, f"NVIDIA L40 data sheet; {_BOTH}"),
    Gpu("l4-24gb", r"L4", *_L4X, 30.3, 60, 121, 121, f"NVIDIA L4 data sheet; {_SPARSE}"),
    Gpu("v100-16gb", r"V100-SXM2-16GB", *_V100_SXM2),
    Gpu(
        *("v100-32gb", r"V100-SXM2-32GB", *_V100_SXM2),
        Silicon("Tesla V100-SXM2-32GB", 80, 32501 * _MIB, 98304, 98304, 6291456, 1530, 877, 4096, 2048, 32, 300),
    ),
    Gpu("v100-pcie-16gb", r"V100-PCIE-16GB", *_V100_PCIE),
    Gpu("v100-pcie-32gb", r"V100-PCIE-32GB", *_V100_PCIE),
    Gpu(
        *("v100s-pcie-32gb", r"V100S-PCIE-32GB", "Volta", (7, 0), 16.4, None, None, 130),
        "NVIDIA V100 data sheet, V100S; no sparsity",
    ),
    Gpu("t4-16gb", r"T4", "Turing", (7, 5), 8.1, None, None, 65, "NVIDIA T4 data sheet; no sparsity"),
    Gpu(
        *("rtx-pro-6000-96gb", r"RTX PRO 6000 Blackwell Workstation Edition", "Blackwell", (12, 0)),
        *(126, 251.9, 503.8, 503.8),
        f"NVIDIA RTX Blackwell PRO architecture white paper, appendix; {_BOTH}",
    ),
    Gpu(
        *("rtx-5090-32gb", r"GeForce RTX 5090", "Blackwell", (12, 0), 104.8, 104.8, 209.5, 209.5),
        f"NVIDIA RTX Blackwell architecture white paper, appendix A; {_BOTH}",
    ),
    Gpu(
        *("rtx-6000-ada-48gb", r"RTX 6000 Ada Generation", *_L4X, 91.1, 182.1, 364.2, 364.2),
        f"NVIDIA Ada architecture white paper; {_BOTH}",
    ),
    Gpu(
        *("rtx-4090-24gb", r"GeForce RTX 4090", *_L4X, 82.6, 82.6, 165.2, 165.2),
        f"NVIDIA Ada architecture white paper, appendix A; {_BOTH}",
        Silicon(
            *("NVIDIA GeForce RTX 4090", 128, 24210 * _MIB, 102400, 101376, 75497472, 2520, 10501, 384, 1536, 24, 450)
        ),
    ),
    Gpu("rtx-a6000-48gb", r"RTX A6000", *_GA10X, 38.7, 77.4, 154.8, 154.8, _GA102_PAPER),
    Gpu("rtx-3090-24gb", r"GeForce RTX 3090", *_GA10X, 35.6, 35.6, 71, 71, _GA102_PAPER),
)
"""Every GPU that is known."""

_MAKER = re.compile(r"(NVIDIA|Tesla) ")


def find_gpu(name: str | None) -> Gpu | None:
    """Find a GPU by the whole name that torch or NVML gives; None where it is not listed."""
    rest = (name or "").strip()
    while maker := _MAKER.match(rest):  # older drivers leave NVIDIA out, or say Tesla
        rest = rest[maker.end() :]
    return next((gpu for gpu in TABLE if re.fullmatch(gpu.names, rest, re.IGNORECASE)), None)


def why_no_bf16_peak(name: str) -> str | None:
    """Say why a GPU has no dense bf16 peak, to which `mfu` refers, after its name; None where it has one."""
    gpu = find_gpu(name)
    if gpu is None:
        return "is not in the table of GPUs"
    if gpu.bf16 is not None:
        return None
    return f"was {gpu.source}" if gpu.fp16 is None else "has no bf16 units; mode_peak_share is the share of what it has"
