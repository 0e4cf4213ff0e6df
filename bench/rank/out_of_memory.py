"""Tell an error that is out of memory from any other: by the exception's class first, then by a short list of messages.

Messages come from torch and from what allocates beside it; each is tested, and so is what looks alike and is not. Some
libraries name what they could not do, and not why: these count where the GPU is as good as full.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_OOM_CLASSES = {"OutOfMemoryError"}
_HOST_OOM_CLASSES = {"MemoryError"}
_DEVICE_OOM_TEXTS = (
    # torch's allocator; a call of the CUDA runtime, or of its driver (expandable segments)
    re.compile(r"(CUDA|HIP) (error: |driver error: )?out of memory"),
    # CUDA's libraries, which allocate beside torch; cuDNN 9 has names of its own (cudnn_graph.h)
    re.compile(r"CU(BLAS|DNN|SOLVER|SPARSE)_STATUS_ALLOC_FAILED|CUFFT_ALLOC_FAILED"),
    re.compile(r"CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    re.compile(r"Triton Error \[CUDA\]: out of memory"),
    # NCCL, in the "Last error" of torch's DistBackendError: https://github.com/NVIDIA/nccl/issues/962 and 1235
    re.compile(r"Cuda failure( \d+)? 'out of memory'"),
    re.compile(r"Failed to CUDA (calloc|malloc)"),
    # torch's allocator itself, where NVML cannot tell it who holds the memory that it lacks (containers, MIG)
    # https://github.com/pytorch/pytorch/issues/112377
    re.compile(r"NVML_SUCCESS == .*INTERNAL ASSERT FAILED at .*CUDACachingAllocator"),
)
_CAUSE_NOT_SAID = (
    # cublasCreate and its like: https://github.com/tensorflow/tensorflow/issues/9489
    re.compile(r"CU(BLAS|DNN|SOLVER|SPARSE)_STATUS_(NOT_INITIALIZED|INTERNAL_ERROR)"),
    re.compile(r"CUSPARSE_STATUS_INSUFFICIENT_RESOURCES"),
    # cuDNN, no plan of which got its workspace
    re.compile(r"unable to find an engine to execute this computation"),
    # NCCL, whose own reason is only in its log
    re.compile(r"unhandled cuda error(?!.*Last error:\s*\S)", re.DOTALL),
)
LITTLE_BYTES = 1 << 30
"""Free memory of a GPU below which a library may not have got what it needs to start: NCCL takes most, hundreds of MiB.

A library that is broken fails in small trials too, with much more free than that.
"""
_NCCL_OTHER_FAILURE = re.compile(r"Cuda failure( \d+)? '(?!out of memory)")
"""NCCL cannot allocate either once a kernel went wrong: https://github.com/NVIDIA/nccl/issues/1283."""
_HOST_OOM_TEXTS = (
    re.compile(r"DefaultCPUAllocator: (can't allocate|not enough) memory"),
    re.compile(r"CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
    re.compile(r"std::bad_alloc"),
    re.compile(r"\[Errno 12\] Cannot allocate memory"),
)


def hides_its_cause(text: str) -> bool:
    """Tell whether a message says what could not be done, and not why: free memory then decides."""
    return any(pattern.search(text) for pattern in _CAUSE_NOT_SAID)


def classify_error(class_names: Sequence[str], text: str, device: str, free_bytes: int | None = None) -> str:
    """Name the outcome of an exception: oom, oom_host or failed.

    Args:
        class_names: names of the exception's class and of its bases.
        text: its message.
        device: cpu or cuda; on a CPU trial the host's memory is the device's.
        free_bytes: what was free of the GPU when it was raised; None where that is not known [bytes].
    """
    if _OOM_CLASSES.intersection(class_names):
        return "oom"
    if any(pattern.search(text) for pattern in _DEVICE_OOM_TEXTS) and not _NCCL_OTHER_FAILURE.search(text):
        return "oom"
    if free_bytes is not None and free_bytes < LITTLE_BYTES and hides_its_cause(text):
        return "oom"
    if _HOST_OOM_CLASSES.intersection(class_names) or any(pattern.search(text) for pattern in _HOST_OOM_TEXTS):
        return "oom" if device == "cpu" else "oom_host"
    return "failed"
