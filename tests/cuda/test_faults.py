"""Planted faults surface as the error that torch gives on a real GPU."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.standin import Faults
from tests.cuda.on_standin import GIB, MIB, Ended, run, run_ranks

pytestmark = pytest.mark.cuda


def _update() -> None:
    import torch

    layer = torch.nn.Linear(64, 64, device="cuda")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(20):
        layer(torch.ones(8, 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()


def _failed(faults: Faults) -> Ended:
    ended = run_ranks(_update, ranks=1, may_fail=True, faults=faults)[0]
    assert ended.code == 1, ended.stderr
    return ended


def test_cublas_that_does_not_start() -> None:
    says = _failed(Faults(blas_refused=True)).stderr
    assert "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`" in says


def test_an_illegal_access_is_met_by_a_later_call() -> None:
    says = _failed(Faults(illegal_access_at_launch=30)).stderr
    assert "CUDA error: an illegal memory access was encountered" in says


def test_a_memory_error_that_cannot_be_corrected() -> None:
    says = _failed(Faults(ecc_at_launch=30)).stderr
    assert "CUDA error: uncorrectable ECC error encountered" in says


def _after_the_error() -> list[str]:
    import torch

    calls = [
        torch.cuda.synchronize,
        lambda: torch.empty(64 * MIB, dtype=torch.uint8, device="cuda"),
        lambda: torch.cuda.Event().record(),
        torch.cuda.mem_get_info,
        lambda: torch.ones(3, device="cuda"),
    ]
    torch.ones(3, device="cuda")  # the launch itself succeeds
    said = []
    for call in calls:
        try:
            call()
            said.append("nothing")
        except RuntimeError as error:
            said.append(str(error).splitlines()[0])
    return said


def test_after_a_sticky_error_every_call_fails() -> None:
    said = run(_after_the_error, faults=Faults(illegal_access_at_launch=1))
    assert said == ["CUDA error: an illegal memory access was encountered"] * 5


def _grow() -> dict[str, Any]:
    import torch

    kept = [torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")]
    free = torch.cuda.mem_get_info()[0]
    try:
        kept.append(torch.empty(512 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        return {"free": free}
    return {}


def test_an_allocation_is_refused_though_more_is_free() -> None:
    told = run(_grow, memory_bytes=8 * GIB, faults=Faults(refuse_at_byte=512 * MIB))
    assert told["free"] == 8 * GIB - 450 * MIB - 256 * MIB


def _hang() -> None:
    import torch

    values = torch.ones(3, device="cuda")
    event = torch.cuda.Event()
    event.record()
    assert not event.query()
    torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")  # the host goes on
    values.tolist()


def test_a_gpu_that_hangs_never_returns_from_a_wait(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    ended = run_ranks(
        _hang,
        ranks=1,
        may_fail=True,
        kill_when=lambda: trace.exists() and "the host waits for a GPU that hangs" in trace.read_text(),
        trace=trace,
        faults=Faults(hang_at_launch=1),
    )[0]
    assert ended.code == -9, ended.stderr
    assert f"malloc {64 * MIB}" in trace.read_text()


def _persistence() -> list[bool | None]:
    import pynvml

    from bench.telemetry.nvml import read_nvml
    from bench.telemetry.watch import GpuWatch

    watch = GpuWatch(pynvml)
    watch.choose([])
    return [read_nvml().gpus[0].persistence_mode, watch.tracks()[0].persistence_mode]


@pytest.mark.parametrize("off", [False, True])
def test_persistence_mode(off: bool) -> None:
    assert run(_persistence, faults=Faults(persistence_off=off)) == [not off] * 2


def test_a_plain_program_runs_with_the_stand_in_preloaded() -> None:
    from bench.standin import environment

    done = subprocess.run(["/bin/echo", "here"], env=environment(), capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("here\n", "")
