"""How often the host reads a value of the device: never per micro-batch, in fp16 once an update."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bench.loop import AccumulationLoop, GradientSync, Precision, SummedCrossEntropy, make_schedule, windows
from tests.loops import CPU
from tests.oracle import TinyLM, make_optimizer, random_batch

STREAMED: dict[str, Any] = {"window_mode": "streamed", "nominal_units": 12.0}


class Reads(TorchDispatchMode):
    """Count what `.item()`, `float()`, `bool()` and `if tensor` come down to."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("options", [{}, STREAMED], ids=["buffered", "streamed"])
@pytest.mark.parametrize("implementation", ["for_loop", "foreach", "fused"])
@pytest.mark.parametrize(("amp_mode", "reads_per_update"), [("fp32", 0), ("tf32", 0), ("bf16", 0), ("fp16", 1)])
def test_host_reads_per_update(
    amp_mode: Any, reads_per_update: int, implementation: str, options: dict[str, Any]
) -> None:
    """Four updates of three micro-batches, with clipping and a schedule: a stray `.item()` would be counted."""
    model, loss = TinyLM(dtype=torch.float32), SummedCrossEntropy()
    optimizer = make_optimizer("sgd", model, implementation)
    loop = AccumulationLoop(
        GradientSync(model),
        optimizer,
        loss,
        Precision(amp_mode, "cpu"),
        CPU,
        clip_norm=1.0,
        schedule=make_schedule(optimizer, "cosine", 1, 9),
    )
    reads = []
    data = [random_batch(2, 2, seed) for seed in range(12)]
    # Counted before: that reads host tensors, which are the device's on a CPU only.
    counts = {id(batch): loss.count(batch) for batch in data}
    for window in windows(data, 3, lambda batch: counts[id(batch)], **options):
        with Reads() as counted:
            loop.run_window(window)
        reads.append(counted.count)
    assert reads == [reads_per_update] * 4
