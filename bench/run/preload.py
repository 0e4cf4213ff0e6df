"""Imported once by the fork server, so that every rank starts with torch loaded.

Nothing here may run a tensor operation or touch CUDA: a forked CUDA context does not work, and started threads do not
survive a fork. `assert_unspoiled` says so before ranks are forked from it.
"""

from __future__ import annotations

import threading

import torch
import torch._dynamo
import torch.nn.parallel

import bench.run.worker
from bench.run.process import die_with_parent

die_with_parent()


def assert_unspoiled() -> None:
    """Check that this process can still be forked.

    Raises:
        RuntimeError: CUDA was initialised or a thread was started.
    """
    if torch.cuda.is_initialized():
        raise RuntimeError("CUDA was initialised in the fork server")
    if threading.active_count() > 1:
        raise RuntimeError(f"the fork server has {threading.active_count()} threads")
