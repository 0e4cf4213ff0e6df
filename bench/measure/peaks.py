"""Peak FLOP/s of GPUs as their maker states them: dense, per precision. No torch.

A GPU that is not listed, a slice of one (MIG), a virtual or a special edition has no peak here: null, never a guess.
NVIDIA's sheets since 2020 print tensor-core figures with 2:4 sparsity, alone or beside the dense ones; what stands
here is dense, half of those. fp16 and bf16 are those that add up in fp32, as torch's matrix products do; on GeForce
cards that is half of the figure with fp16 sums. fp32 is without tensor cores.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

MatmulPrecision = Literal["fp32", "tf32", "bf16", "fp16"]


@dataclass(frozen=True)
class Peak:
    """State what one kind of GPU can do at most, by its data sheet; null where it has no such unit."""

    names: str
    """Pattern of the whole name, as torch and NVML tell it, without the maker's."""
    fp32: float
    """Without tensor cores [TFLOP/s]."""
    tf32: float | None
    bf16: float | None
    fp16: float
    source: str
    """The maker's document, and how the dense figure is read from it."""


_SPARSE = "sheet counts sparsity, halved"
_BOTH = "sheet has dense | sparse"

PEAKS: tuple[Peak, ...] = (
    Peak(r"B200", 75, 1100, 2250, 2250, f"NVIDIA Blackwell data sheet, HGX B200, one GPU; {_SPARSE}"),
    Peak(r"GH200 (120GB|144G|144G HBM3e|480GB)", 67, 494.5, 989.5, 989.5, f"NVIDIA GH200 data sheet; {_SPARSE}"),
    Peak(r"H200", 67, 494.5, 989.5, 989.5, f"NVIDIA H200 data sheet, SXM; {_SPARSE}"),
    Peak(r"H200 NVL", 60, 417.5, 835.5, 835.5, f"NVIDIA H200 data sheet, NVL; {_SPARSE}"),
    Peak(r"H100 80GB HBM3", 67, 494.5, 989.5, 989.5, f"NVIDIA H100 data sheet, SXM; {_SPARSE}"),
    Peak(r"H100 NVL", 60, 417.5, 835.5, 835.5, f"NVIDIA H100 data sheet, NVL; {_SPARSE}"),
    Peak(r"H100 PCIe", 51, 378, 756.5, 756.5, f"NVIDIA H100 data sheet of 2022, PCIe; {_SPARSE}"),
    Peak(
        r"A100(-SXM4-(40|80)GB|-PCIE-40GB| 80GB PCIe)",
        19.5,
        156,
        312,
        312,
        f"NVIDIA A100 data sheet, all four; {_BOTH}",
    ),
    Peak(r"A30", 10.3, 82, 165, 165, f"NVIDIA A30 data sheet; {_BOTH}"),
    Peak(r"A40", 37.4, 74.8, 149.7, 149.7, f"NVIDIA A40 data sheet; {_BOTH}"),
    Peak(r"A10", 31.2, 62.5, 125, 125, f"NVIDIA A10 data sheet; {_BOTH}"),
    Peak(r"A10G", 35, 35, 70, 70, f"NVIDIA A10G data sheet, published by AWS; {_BOTH}"),
    Peak(r"L40S", 91.6, 183, 362, 362, f"NVIDIA L40S data sheet; {_BOTH}"),
    Peak(r"L40", 90.5, 90.5, 181, 181, f"NVIDIA L40 data sheet; {_BOTH}"),
    Peak(r"L4", 30.3, 60, 121, 121, f"NVIDIA L4 data sheet; {_SPARSE}"),
    Peak(r"V100-SXM2-(16|32)GB", 15.7, None, None, 125, "NVIDIA V100 data sheet, SXM2; no sparsity"),
    Peak(r"V100-PCIE-(16|32)GB", 14, None, None, 112, "NVIDIA V100 data sheet, PCIe; no sparsity"),
    Peak(r"V100S-PCIE-32GB", 16.4, None, None, 130, "NVIDIA V100 data sheet, V100S; no sparsity"),
    Peak(r"T4", 8.1, None, None, 65, "NVIDIA T4 data sheet; no sparsity"),
    Peak(r"RTX 6000 Ada Generation", 91.1, 182.1, 364.2, 364.2, f"NVIDIA Ada architecture white paper; {_BOTH}"),
    Peak(r"GeForce RTX 4090", 82.6, 82.6, 165.2, 165.2, f"NVIDIA Ada architecture white paper, appendix A; {_BOTH}"),
    Peak(r"RTX A6000", 38.7, 77.4, 154.8, 154.8, f"NVIDIA GA102 architecture white paper, appendix A; {_BOTH}"),
    Peak(r"GeForce RTX 3090", 35.6, 35.6, 71, 71, f"NVIDIA GA102 architecture white paper, appendix A; {_BOTH}"),
)
"""Every GPU whose peak is known. Names are those of full, unsliced boards."""

_MAKER = re.compile(r"(NVIDIA|Tesla) ")


def peak_flops_per_s(gpu_name: str | None, precision: MatmulPrecision) -> float | None:
    """Look up the dense peak of one GPU; null where its name is not listed, or it has no such unit [FLOP/s]."""
    if gpu_name is None:
        return None
    name = gpu_name.strip()
    while maker := _MAKER.match(name):  # older drivers leave NVIDIA out, or say Tesla
        name = name[maker.end() :]
    peak = next((peak for peak in PEAKS if re.fullmatch(peak.names, name, re.IGNORECASE)), None)
    tera: float | None = None if peak is None else getattr(peak, precision)
    return None if tera is None else tera * 1e12


def matmul_precision(amp_mode: MatmulPrecision, param_dtype: Literal["fp32", "bf16", "fp16"]) -> MatmulPrecision:
    """Name the precision in which a trial multiplies matrices: autocast's, else that of the stored weights."""
    if amp_mode in ("bf16", "fp16") or param_dtype == "fp32":
        return amp_mode
    return param_dtype
