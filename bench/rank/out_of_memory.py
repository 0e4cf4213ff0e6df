"""Tell an error that is out of memory from any other: by the exception's class first, then by a short list of messages.

Messages come from torch and from what allocates beside it; each is tested, and so is what looks alike and is not.
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
    re.compile(r"CU(BLAS|DNN|SOLVER|SPARSE)_STATUS_ALLOC_FAILED"),
    re.compile(r"CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    re.compile(r"Triton Error \[CUDA\]: out of memory"),
    # NCCL, in the "Last error" of torch's DistBackendError: https://github.com/NVIDIA/nccl/issues/962 and 1235
    re.compile(r"Cuda failure( \d+)? 'out of memory'"),
    re.compile(r"Failed to CUDA (calloc|malloc)"),
)
_NCCL_OTHER_FAILURE = re.compile(r"Cuda failure( \d+)? '(?!out of memory)")
"""NCCL cannot allocate either once a kernel went wrong: https://github.com/NVIDIA/nccl/issues/1283."""
_HOST_OOM_TEXTS = (
    re.compile(r"DefaultCPUAllocator: (can't allocate|not enough) memory"),
    re.compile(r"CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
    re.compile(r"std::bad_alloc"),
    re.compile(r"\[Errno 12\] Cannot allocate memory"),
)


def classify_error(class_names: Sequence[str], text: str, device: str) -> str:
    """Name the outcome of an exception: oom, oom_host or failed.

    Args:
        class_names: names of the exception's class and of its bases.
        text: its message.
        device: cpu or cuda; on a CPU trial the host's memory is the device's.
    """
    if _OOM_CLASSES.intersection(class_names):
        return "oom"
    if any(pattern.search(text) for pattern in _DEVICE_OOM_TEXTS) and not _NCCL_OTHER_FAILURE.search(text):
        return "oom"
    if _HOST_OOM_CLASSES.intersection(class_names) or any(pattern.search(text) for pattern in _HOST_OOM_TEXTS):
        return "oom" if device == "cpu" else "oom_host"
    return "failed"
