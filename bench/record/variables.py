"""Environment variables that a measurement depends on: which are recorded, and which make two measurements unlike.

No secret is recorded: no variable whose name sounds like one, such as NVIDIA_API_KEY, and no address with a password.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache

_PREFIXES = (
    *("CUDA_", "NVIDIA_", "CUBLAS", "CUDNN_", "NCCL_", "PYTORCH_", "TORCH", "TRITON_", "ATEN_", "GLOO_"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "DNNL_", "ONEDNN_"),
)
_SECRET_NAME = re.compile(r"(^|_)(API|APIKEY|AUTH|CREDENTIALS?|KEY|PASS|PASSPHRASE|PASSWD|PASSWORD|SECRET|TOKEN)(_|$)")
_SECRET_VALUE = re.compile(r"://[^/\s]*@")

DECISIVE = {
    "cuda": (
        # What is computed: TF32 for or against every switch, BF16 or integers in place of FP32 and FP64.
        *("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
        *("CUBLAS_EMULATE_SINGLE_PRECISION", "CUBLAS_EMULATE_DOUBLE_PRECISION", "CUBLAS_EMULATION_STRATEGY"),
        # Which kernels, and with how much memory to work in.
        *("CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE", "TORCH_CUBLASLT_UNIFIED_WORKSPACE"),
        *("TORCH_BLAS_PREFER_CUBLASLT", "TORCH_CUDNN_SDPA_DEPRIORITIZED", "PYTORCH_TUNABLEOP_ENABLED"),
        # Whether the host runs ahead of the GPU.
        "CUDA_LAUNCH_BLOCKING",
    ),
    "cpu": (
        *("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_MAX_CPU_ISA"),
        *("MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "OPENBLAS_CORETYPE"),
    ),
}
"""Device to the variables under which rows of one folder must be equal, and without which two rows are not compared."""


def recorded_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Give the variables that a row keeps: those of torch and of the libraries below it, without secrets."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(_PREFIXES) and not (_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))
    }


def decisive_variables(environment: Mapping[str, str], device: str) -> dict[str, str]:
    """Give the variables that make two measurements on a device (cpu or cuda) unlike, as far as they are set."""
    return {name: environment[name] for name in DECISIVE[device] if name in environment}


@cache
def decisive_of_row(environment_json: str | None, device: str | None) -> tuple[tuple[str, str], ...]:
    """Give the same of a row's `environment_json`, as pairs; none where it is unknown or cannot be read."""
    try:
        found = json.loads(environment_json or "{}")
        return tuple(decisive_variables(found, device or "").items())
    except (ValueError, KeyError, TypeError):
        return ()
