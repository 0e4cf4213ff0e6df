"""Peak FLOP/s of GPUs as their maker states them, by the precision in which a trial multiplies. No torch."""

from __future__ import annotations

from typing import Literal

from bench.gpus import find_gpu

MatmulPrecision = Literal["fp32", "tf32", "bf16", "fp16"]


def peak_flops_per_s(gpu_name: str | None, precision: MatmulPrecision) -> float | None:
    """Look up the dense peak of one GPU; null where its name is not listed, or it has no such unit [FLOP/s]."""
    gpu = find_gpu(gpu_name)
    tera: float | None = None if gpu is None else getattr(gpu, precision)
    return None if tera is None else tera * 1e12


def matmul_precision(amp_mode: MatmulPrecision, param_dtype: Literal["fp32", "bf16", "fp16"]) -> MatmulPrecision:
    """Name the precision in which a trial multiplies matrices: autocast's, else that of the stored weights."""
    if amp_mode in ("bf16", "fp16") or param_dtype == "fp32":
        return amp_mode
    return param_dtype
