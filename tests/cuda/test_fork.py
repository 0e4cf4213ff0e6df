"""A rank notices that the process it was forked from had touched CUDA, whatever touched it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.cuda.on_standin import run

pytestmark = pytest.mark.cuda

TOUCHES = {
    "import": lambda torch: None,
    "count by NVML": lambda torch: torch.cuda.device_count(),
    "count by CUDA": lambda torch: torch._C._cuda_getDeviceCount(),
    "init": lambda torch: torch.cuda.init(),
    "tensor": lambda torch: torch.ones(2, device="cuda"),
}


def _fork_after(touch: str) -> str | None:
    import torch

    from bench.launch.rank_process import unfit_reason

    TOUCHES[touch](torch)
    reader, writer = os.pipe()
    parent = os.getpid()
    if (pid := os.fork()) == 0:
        # One thread, whatever a library here started: this asks for the GPU alone.
        os.write(writer, str(unfit_reason(parent, threads=lambda pid: 1)).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    said = os.read(reader, 1000).decode()
    return None if said == "None" else said


@pytest.mark.parametrize(
    ("touch", "is_fit"),
    [("import", True), ("count by NVML", True), ("count by CUDA", False), ("init", False), ("tensor", False)],
)
def test_child_of_a_process_that_touched_cuda_is_unfit(touch: str, is_fit: bool) -> None:
    """The stand-in has no device files, so only torch can tell."""
    said: Any = run(_fork_after, touch)
    assert said is None if is_fit else "touched a GPU" in said
