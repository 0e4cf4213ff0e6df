"""Global numeric switches of torch: set for one AMP mode, and read back as torch really holds them."""

from __future__ import annotations

from typing import Any

import torch

from bench.loop.precision import AmpMode


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


def read_switches() -> dict[str, bool | str]:
    """Read back what torch holds now: TF32 in matmul and in cuDNN, and the CPU's precision of fp32 products."""
    if _has_fp32_precision():
        backends: Any = torch.backends
        return {
            "tf32_matmul": backends.cuda.matmul.fp32_precision == "tf32",
            "tf32_cudnn": backends.cudnn.conv.fp32_precision == "tf32",
            "float32_matmul_precision": str(backends.mkldnn.matmul.fp32_precision),
        }
    return {
        "tf32_matmul": bool(torch.backends.cuda.matmul.allow_tf32),
        "tf32_cudnn": bool(torch.backends.cudnn.allow_tf32),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }


def _has_fp32_precision() -> bool:
    """Tell whether this torch has the newer per-backend switch."""
    mkldnn_matmul = getattr(torch.backends.mkldnn, "matmul", None)
    return hasattr(torch.backends.cuda.matmul, "fp32_precision") and hasattr(mkldnn_matmul, "fp32_precision")
