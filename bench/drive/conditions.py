"""What memory a trial has here: an out-of-memory error holds only under the same. No torch here."""

from __future__ import annotations

import os
from typing import Any

import psutil

from bench.sweep.expand import MachineFacts
from bench.telemetry.nvml import read_nvml

_ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")


def memory_conditions(facts: MachineFacts) -> dict[str, Any]:
    """Describe the memory of the devices that trials run on: models, capacities [bytes], allocator settings."""
    gpus = read_nvml().gpus if facts.device == "cuda" else ()
    return {
        "device": facts.device,
        "gpus": sorted(([gpu.name or "unknown", gpu.total_bytes] for gpu in gpus), key=str),
        "host_bytes": psutil.virtual_memory().total,
        "visible_gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "allocator": {name: os.environ[name] for name in _ALLOCATOR_VARIABLES if name in os.environ},
    }
