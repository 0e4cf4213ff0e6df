"""When DistributedDataParallel makes the host wait for its own timing; torch is imported by the ranks alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cuda.on_standin import run_ranks

pytestmark = [pytest.mark.cuda, pytest.mark.ddp]


def _ddp_waits(folder: str, iterations: int) -> list[int]:
    trace = Path(folder) / f"trace-{os.environ['RANK']}"
    os.environ["STANDIN_TRACE"] = str(trace)  # one for each rank, before the stand-in reads it
    import ctypes

    import torch

    from tests.cuda.test_ranks import _join

    _join()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8, device="cuda"))
    values = torch.ones(2, 8, device="cuda")
    for _ in range(iterations):
        torch.cuda.synchronize()
        with model.no_sync():
            model(values).sum().backward()
        model(values).sum().backward()
    torch.cuda.synchronize()
    ctypes.CDLL(None).fflush(None)
    _, *parts = trace.read_text().split("synchronize device\n")
    del model
    return [number for number, part in enumerate(parts[:iterations], start=1) if "synchronize event" in part]


def test_host_waits_for_ddps_own_timing_in_the_first_exchanges_and_every_hundredth(tmp_path: Path) -> None:
    from bench.rank.ddp_warmup import WAITING_ITERATIONS

    expected = [*range(2, WAITING_ITERATIONS + 1), 101]
    for ended in run_ranks(_ddp_waits, str(tmp_path), 103, ranks=2, count=2):
        assert ended.value == expected
