"""Versions of the libraries below torch."""

from __future__ import annotations

from typing import Any

import torch


def nccl_version() -> str | None:
    """Give the version of NCCL that torch was built with, such as 2.21.5; None for a build without it."""
    nccl: Any = torch.cuda.nccl
    try:
        return ".".join(map(str, nccl.version()))
    except AttributeError:  # torch.cuda.nccl is there in every build; what it calls is not
        return None


def cudnn_version() -> str | None:
    """Give cuDNN's version number, such as 90100; None without it, or where it is not for this GPU."""
    cudnn: Any = torch.backends.cudnn
    try:
        version = cudnn.version()
    except RuntimeError:  # the GPU is older than cuDNN; what cannot run there says so itself
        return None
    return None if version is None else str(version)
