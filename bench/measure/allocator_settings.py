"""Which settings of its caching allocator torch goes by. Two variables may hold them, and versions differ in which."""

from __future__ import annotations

import os
from typing import Any

import torch

DEFAULT = "default"
_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def allocator_settings() -> str:
    """Give the settings that CUDA's caching allocator goes by, as text; the word default without any.

    Torch is asked what it read: before 2.8 it knows only PYTORCH_CUDA_ALLOC_CONF, and 2.14 prefers that to the new
    name, PYTORCH_ALLOC_CONF. A setting that was read may still be without effect: torch 2.9 reads
    expandable_segments from the new name and does not follow it (https://github.com/pytorch/pytorch/issues/183387).
    """
    try:
        told: dict[str, Any] = torch.cuda.memory._snapshot()["allocator_settings"]
    except (RuntimeError, KeyError, AttributeError):  # cudaMallocAsync tells nothing, nor does a build without CUDA
        return next(filter(None, map(os.environ.get, _VARIABLES)), DEFAULT)
    text = told.get("PYTORCH_CUDA_ALLOC_CONF") or DEFAULT
    asks = "expandable_segments:true" in text.replace(" ", "").lower()
    return f"{text} (expandable_segments is not in force)" if asks and not told.get("expandable_segments") else text
