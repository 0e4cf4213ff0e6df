"""Global numeric switches of torch: set for one AMP mode, and read back as torch really holds them."""

from __future__ import annotations

from typing import Any

import torch

from bench.loop.precision import AmpMode, Precision


def set_switches(amp_mode: AmpMode) -> None:
    """Turn TF32 off for fp32, and on for tf32, bf16 and fp16 [whole process].

    Under bf16 and fp16 it concerns what autocast leaves in fp32. Call it after user code ran, which may have changed
    the switches. torch >= 2.9 also has one `fp32_precision` per backend. Its older getters, which torch's own compiler
    calls, raise where only that was set, so the older setters come first: what they leave open, or turn on for a CPU,
    is then set through the new ones, and both say the same.
    """
    allowed = amp_mode != "fp32"
    # Sets what torch.set_float32_matmul_precision does, too: high or highest.
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed
    if _has_fp32_precision():
        precision = "tf32" if allowed else "ieee"
        backends: Any = torch.backends
        for owner in (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn):
            owner.fp32_precision = precision
        # A CPU may also round fp32 products (to bf16 or tf32) when asked; never here.
        for owner in (backends.mkldnn.matmul, backends.mkldnn.conv, backends.mkldnn.rnn):
            owner.fp32_precision = "ieee"


def read_switches(device_type: str) -> dict[str, bool | str | None]:
    """Read back what torch holds now, from where it acts on this kind of device [whole process].

    Args:
        device_type: cuda: cuBLAS's and cuDNN's switches; cpu: oneDNN's, the rest null.

    Returns:
        tf32_matmul and tf32_cudnn; float32_matmul_precision in the words of `torch.set_float32_matmul_precision`; and
        what cuBLAS may do with sums of 16-bit products, null where this torch has no such switch.
    """
    if device_type != "cuda":
        return dict.fromkeys(_ON_CUDA) | {"float32_matmul_precision": _matmul_precision("mkldnn")}
    cublas: Any = torch.backends.cuda.matmul
    precision = _matmul_precision("cuda")
    return {
        "tf32_matmul": precision != "highest",
        "tf32_cudnn": _tf32_in_cudnn(),
        "float32_matmul_precision": precision,
        **{name: getattr(cublas, f"allow_{name}", None) for name in _SUMS},
    }


def autocast_dtype_in_force(precision: Precision) -> torch.dtype | None:
    """Ask torch, inside the context of forward and loss, what type it casts to; None where it casts nothing."""
    with precision.autocast():
        is_on = torch.is_autocast_enabled(precision.device_type)
        return torch.get_autocast_dtype(precision.device_type) if is_on else None


_SUMS = ("bf16_reduced_precision_reduction", "fp16_reduced_precision_reduction", "fp16_accumulation")
"""Columns of what cuBLAS may do, each named as its switch without `allow_`."""
_ON_CUDA = ("tf32_matmul", "tf32_cudnn", *_SUMS)
_WORDS = {"none": "highest", "ieee": "highest", "tf32": "high", "bf16": "medium"}
"""The newer switch's word, with its parents' where it has none of its own -> the older one's."""


def _matmul_precision(backend: str) -> str:
    if not _has_fp32_precision():
        return torch.get_float32_matmul_precision()  # one switch for every kind of device
    matmul: Any = getattr(torch.backends, backend).matmul
    return _WORDS[matmul.fp32_precision]


def _tf32_in_cudnn() -> bool:
    if not _has_fp32_precision():
        return bool(torch.backends.cudnn.allow_tf32)
    cudnn: Any = torch.backends.cudnn
    return "tf32" in (cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision)


def _has_fp32_precision() -> bool:
    """Tell whether this torch has the newer per-backend switch."""
    mkldnn_matmul = getattr(torch.backends.mkldnn, "matmul", None)
    return hasattr(torch.backends.cuda.matmul, "fp32_precision") and hasattr(mkldnn_matmul, "fp32_precision")
