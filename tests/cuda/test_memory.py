"""Device memory on the stand-in: what torch's caching allocator counts, and what a GPU that is full does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.standin import GPUS, gpu_uuid
from bench.standin.gpus import NAME_START
from tests.cuda.on_standin import GIB, MIB, run, run_ranks

pytestmark = pytest.mark.cuda


def _linear_peaks() -> dict[str, int]:
    import torch

    layer = torch.nn.Linear(1024, 1024, bias=False, device="cuda")  # 4 MiB
    inputs = torch.empty(256, 1024, device="cuda")  # 1 MiB
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    output = layer(inputs)  # 1 MiB, and a workspace for cuBLAS
    after_forward = torch.cuda.memory_allocated() - before
    output.backward(torch.empty_like(output))
    grad = layer.weight.grad
    assert grad is not None
    return {
        "before": before,
        "after_forward": after_forward,
        "gradient": grad.nbytes,
        "peak": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.memory_reserved(),
        "free": torch.cuda.mem_get_info()[0],
    }


def test_peaks_of_a_linear_layer_are_exact() -> None:
    told = run(_linear_peaks, memory_bytes=8 * GIB)
    workspace = 8519680  # cuBLAS's on an A100, as torch sizes it: 8 x 1024 KiB + 128 KiB
    assert told["before"] == 5 * MIB
    assert told["after_forward"] == 1 * MIB + workspace
    assert told["gradient"] == 4 * MIB
    # Weight, input, output; the output's gradient and the weight's; a workspace for each thread that calls cuBLAS.
    assert told["peak"] == (4 + 1 + 1 + 1 + 4) * MIB + 2 * workspace
    assert told["reserved"] % (2 * MIB) == 0
    assert told["free"] == 8 * GIB - 450 * MIB - told["reserved"]


def _fill() -> dict[str, Any]:
    import torch

    kept = []
    try:
        while True:
            kept.append(torch.empty(256 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError as error:
        says = str(error)
    blocks, stats = len(kept), torch.cuda.memory_stats()
    kept.clear()
    torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")
    return {"blocks": blocks, "says": says, "ooms": stats["num_ooms"], "retries": stats["num_alloc_retries"]}


def test_a_full_gpu_raises_torchs_own_error_and_goes_on() -> None:
    told = run(_fill, memory_bytes=4 * GIB)
    assert told["blocks"] == (4 * GIB - 450 * MIB) // (256 * MIB)
    assert "CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacity of 4.00 GiB" in told["says"]
    assert told["ooms"] == 1
    assert told["retries"] >= 1


def _take_all() -> None:
    import torch

    [torch.empty(3 * GIB, dtype=torch.uint8, device="cuda") for _ in range(2)]


def _take(size: int) -> int:
    import torch

    return torch.empty(size, dtype=torch.uint8, device="cuda").nbytes


def test_the_process_after_one_that_ran_out_has_the_whole_gpu(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    failed = run_ranks(_take_all, ranks=1, may_fail=True, memory_bytes=4 * GIB, ledger=ledger)[0]
    assert failed.code == 1
    assert "OutOfMemoryError" in failed.stderr
    assert run(_take, 3 * GIB, memory_bytes=4 * GIB, ledger=ledger) == 3 * GIB


def _shared_by_file(size: int) -> str:
    import os

    import torch

    rank = int(os.environ["RANK"])
    torch.distributed.init_process_group("gloo", init_method=os.environ["STORE"], rank=rank, world_size=2)
    kept = [torch.empty(size, dtype=torch.uint8, device="cuda")] if rank == 0 else []
    torch.distributed.barrier()
    says = "fits"
    if rank == 1:
        try:
            kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.cuda.OutOfMemoryError:
            says = "out of memory"
    torch.distributed.barrier()
    return says


def test_processes_share_the_gpus_memory() -> None:
    ended = run_ranks(_shared_by_file, 2 * GIB, ranks=2, memory_bytes=4 * GIB)
    assert [one.value for one in ended] == ["fits", "out of memory"]


def _expandable() -> dict[str, int]:
    import torch

    big = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    reserved = torch.cuda.memory_reserved()
    del big
    torch.cuda.empty_cache()
    return {"reserved": reserved, "after": torch.cuda.memory_reserved(), "free": torch.cuda.mem_get_info()[0]}


def test_expandable_segments_map_what_they_need() -> None:
    asked = dict.fromkeys(("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"), "expandable_segments:True")
    told = run(_expandable, memory_bytes=4 * GIB, variables=asked)
    assert told == {"reserved": 100 * MIB, "after": 0, "free": 4 * GIB - 450 * MIB}


def _identity() -> dict[str, Any]:
    import torch

    properties = torch.cuda.get_device_properties(0)
    return {
        "count": torch.cuda.device_count(),
        "name": properties.name,
        "capability": [properties.major, properties.minor],
        "sms": properties.multi_processor_count,
        "total": properties.total_memory,
        "uuid": str(properties.uuid),
    }


@pytest.mark.parametrize("visible", ["3,1", f"{gpu_uuid(3)},{gpu_uuid(1)}"])
def test_visible_devices_choose_by_index_or_uuid(visible: str) -> None:
    gpu = GPUS["h100-80gb"]
    told = run(_identity, gpu="h100-80gb", count=4, variables={"CUDA_VISIBLE_DEVICES": visible})
    assert told == {
        "count": 2,
        "name": f"{NAME_START} {gpu.name}",
        "capability": [9, 0],
        "sms": gpu.sms,
        "total": gpu.memory_bytes,
        "uuid": gpu_uuid(3).removeprefix("GPU-"),
    }


def test_no_visible_device_is_a_machine_without_a_gpu() -> None:
    assert run(_availability, variables={"CUDA_VISIBLE_DEVICES": ""}) == [False, 0]


def _availability() -> list[Any]:
    import torch

    return [torch.cuda.is_available(), torch.cuda.device_count()]


def _old_gpu() -> None:
    import torch

    torch.ones(3, device="cuda")


def test_a_gpu_older_than_torchs_kernels_has_none_to_run() -> None:
    ended = run_ranks(_old_gpu, ranks=1, may_fail=True, gpu="v100-32gb", variables={"STANDIN_ARCHITECTURES": "75,80"})[
        0
    ]
    assert ended.code == 1
    assert "no kernel image is available for execution on the device" in ended.stderr
