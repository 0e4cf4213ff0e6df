"""A stand-in for the GPU: torch's own CUDA build runs on a machine without one, for tests and for estimates.

A small C library, built on first use, answers for CUDA's runtime and driver, cuBLAS, cuDNN, NCCL and NVML. Kernels do
nothing; memory, errors and calls are those of a real GPU. Runs in the driver's process, which imports no torch, and in
ranks. Read `switches.py` first, then `src/standin.h`; `docs/standin.md` says what it shows and what it cannot.
"""

from __future__ import annotations

from bench.standin.gpus import GPUS, gpu_uuid
from bench.standin.self_test import check
from bench.standin.switches import Faults, environment, has_values, is_standin, load

__all__ = ["GPUS", "Faults", "check", "environment", "gpu_uuid", "has_values", "is_standin", "load"]
