"""Which errors are out of memory: by class first, then by message, and nothing that only looks alike."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bench.launch.heartbeat import Heartbeat
from bench.rank.out_of_memory import LITTLE_BYTES, classify_error, hides_its_cause
from bench.rank.worker import _describe

NCCL = (
    "NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, unhandled cuda error (run with NCCL_DEBUG=INFO "
    "for details), NCCL version 2.20.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
)
"""What torch says of any CUDA failure inside NCCL; the reason comes after it."""
ASSERTED = 'INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":995, please report a bug to PyTorch.'


@pytest.mark.parametrize(
    ("classes", "text", "device", "outcome"),
    [
        (["OutOfMemoryError", "RuntimeError"], "CUDA out of memory. Tried to allocate 2 GiB", "cuda", "oom"),
        (["OutOfMemoryError", "RuntimeError"], "words that nobody knows yet", "cuda", "oom"),
        (["RuntimeError"], "CUDA error: out of memory", "cuda", "oom"),
        (["RuntimeError"], "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)", "cuda", "oom"),
        (["RuntimeError"], "CUDA error: an illegal memory access was encountered", "cuda", "failed"),
        (["RuntimeError"], "CUDA error: device-side assert triggered", "cuda", "failed"),
        (["RuntimeError"], "CUDA driver error: out of memory", "cuda", "oom"),
        (["AcceleratorError", "RuntimeError"], "CUDA error: out of memory", "cuda", "oom"),
        (["RuntimeError"], "Triton Error [CUDA]: out of memory", "cuda", "oom"),
        (["RuntimeError"], "cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "cuda", "oom"),
        (["RuntimeError"], "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", "cuda", "oom"),
        (["RuntimeError"], "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED", "cuda", "oom_host"),
        (["RuntimeError"], "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "cuda", "failed"),
        (["RuntimeError"], "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling cublasCreate(h)", "cuda", "failed"),
        (["DistBackendError", "RuntimeError"], NCCL + "Cuda failure 2 'out of memory'", "cuda", "oom"),
        (["DistBackendError", "RuntimeError"], NCCL + "Cuda failure 'out of memory'", "cuda", "oom"),
        (["DistBackendError", "RuntimeError"], NCCL + "Failed to CUDA calloc async 6291456 bytes", "cuda", "oom"),
        (["DistBackendError", "RuntimeError"], NCCL + "Cuda failure 1 'invalid argument'", "cuda", "failed"),
        (
            ["DistBackendError", "RuntimeError"],
            NCCL + "Cuda failure 'an illegal memory access was encountered'\nFailed to CUDA calloc 512 bytes",
            "cuda",
            "failed",
        ),
        (["RuntimeError"], "cuFFT error: CUFFT_ALLOC_FAILED", "cuda", "oom"),
        (["RuntimeError"], "NVML_SUCCESS == r " + ASSERTED, "cuda", "oom"),
        (["RuntimeError"], "NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() " + ASSERTED, "cuda", "oom"),
        (["RuntimeError"], "block != nullptr " + ASSERTED, "cuda", "failed"),
        (["RuntimeError"], "std::bad_alloc", "cuda", "oom_host"),
        (["MemoryError"], "", "cuda", "oom_host"),
        (["MemoryError"], "", "cpu", "oom"),
        (["RuntimeError"], "[enforce fail] DefaultCPUAllocator: can't allocate memory: Error code 12", "cpu", "oom"),
        (["OSError"], "[Errno 12] Cannot allocate memory", "cuda", "oom_host"),
        (["ValueError"], "my loader said: memory of last year", "cuda", "failed"),
    ],
)  # fmt: skip
def test_error_is_out_of_memory_by_class_first_and_then_by_a_short_list_of_messages(
    classes: list[str], text: str, device: str, outcome: str
) -> None:
    """One phrase is not enough and too much: illegal access is no OOM.

    Case 54: https://github.com/Lightning-AI/pytorch-lightning/issues/6819, and too wide a match
    https://github.com/the-database/traiNNer-redux/pull/321
    """
    assert classify_error(classes, text, device) == outcome


@pytest.mark.parametrize(
    ("text", "is_decided_by_memory"),
    [
        ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", True),
        ("CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasCreate(handle)`", True),
        ("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", True),
        ("cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`", True),
        ("CUDA error: CUSPARSE_STATUS_INSUFFICIENT_RESOURCES when calling `cusparseSpMM`", True),
        ("GET was unable to find an engine to execute this computation", True),
        (NCCL, True),
        (NCCL.removesuffix("Last error:\n"), True),
        (NCCL + "Cuda failure 1 'invalid argument'", False),
        ("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`", False),
        ("CUDA error: an illegal memory access was encountered", False),
        ("CUDA error: uncorrectable ECC error encountered", False),
        ("CUDA error: device-side assert triggered", False),
        ("the user's own mistake", False),
    ],
)
def test_library_that_does_not_say_why_is_out_of_memory_on_a_full_gpu_alone(
    text: str, is_decided_by_memory: bool
) -> None:
    """Beside plenty of free memory, or where nobody knows how much is free, it is broken.

    https://github.com/tensorflow/tensorflow/issues/9489
    """
    said = [classify_error(["RuntimeError"], text, "cuda", free) for free in (0, LITTLE_BYTES - 1, LITTLE_BYTES, None)]
    assert said == (["oom", "oom", "failed", "failed"] if is_decided_by_memory else ["failed"] * 4)
    assert hides_its_cause(text) == is_decided_by_memory


def test_free_memory_is_read_where_the_error_is_met_and_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """While what failed still holds its tensors; after an error that stays the GPU does not answer."""
    error, heartbeat = RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED\nmore"), Heartbeat(tmp_path / "beat")

    def broken() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (5 << 20, 80 << 30))
    told = _describe(error, "cuda", heartbeat)
    said = "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED (5.00 MiB of the GPU were free)"
    assert (told["outcome"], told["reason"]) == ("oom", said)
    monkeypatch.setattr(torch.cuda, "mem_get_info", broken)
    told = _describe(error, "cuda", heartbeat)
    assert (told["outcome"], told["reason"]) == ("failed", "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED")
    assert _describe(error, "cpu", heartbeat)["outcome"] == "failed"
