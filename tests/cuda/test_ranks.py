"""NCCL of the stand-in: ranks of one machine exchange values, through torch.distributed and DDP."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.on_standin import MIB, run_ranks
from tests.cuda.values import COPY_BYTES
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.cuda, pytest.mark.ddp]


QUICKLY = {
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "100",
}
"""What torch else takes a minute for before it ends a process whose collective failed."""


def _join() -> tuple[int, int]:
    import torch

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", init_method=os.environ["STORE"], rank=rank, world_size=size)
    return rank, size


def _collectives() -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    rank, size = _join()

    def on_gpu(values: list[Any], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype).cuda()

    told: dict[str, Any] = {}
    kinds = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8")
    for kind in kinds:
        for name in ("SUM", "PRODUCT", "MIN", "MAX", "AVG"):
            values = on_gpu([rank + 1, 2 * rank + 2, 3], getattr(torch, kind))
            dist.all_reduce(values, getattr(dist.ReduceOp, name))
            told[f"{kind} {name}"] = values.tolist()
    values = on_gpu([rank, rank], torch.float32)
    dist.broadcast(values, src=size - 1)
    told["broadcast"] = values.tolist()
    gathered = [on_gpu([0], torch.int64) for _ in range(size)]
    dist.all_gather(gathered, on_gpu([rank * 10], torch.int64))
    told["all gather"] = [one.tolist() for one in gathered]
    scattered = on_gpu([0, 0], torch.float32)
    dist.reduce_scatter_tensor(scattered, on_gpu([rank + i for i in range(2 * size)], torch.float32))
    told["reduce scatter"] = scattered.tolist()
    values = on_gpu([rank + 1.0], torch.float32)
    dist.reduce(values, dst=0)
    told["reduce"] = values.tolist() if rank == 0 else None
    out = on_gpu([0] * size, torch.int64)
    dist.all_to_all_single(out, on_gpu([10 * rank + i for i in range(size)], torch.int64))
    told["all to all"] = out.tolist()
    if rank < 2:
        values = on_gpu([rank] * 50_000, torch.int64)  # more than a letter holds
        if rank == 0:
            dist.send(values, dst=1)
        else:
            dist.recv(values, src=0)
        told["send"] = [values.min().item(), values[-1].item()] if rank == 0 else values[[0, -1]].tolist()
    group = dist.new_group([0, 1])
    if rank < 2:
        values = on_gpu([rank + 1], torch.int64)
        dist.all_reduce(values, group=group)
        told["group"] = values.tolist()
    dist.barrier()
    dist.destroy_process_group()
    return told


@pytest.mark.parametrize("size", [2, 3])
def test_collectives_give_the_right_values(size: int) -> None:
    ranks = [one.value for one in run_ranks(_collectives, ranks=size, count=size)]
    first, second = list(range(1, size + 1)), [2 * i for i in range(1, size + 1)]
    columns = [first, second, [3] * size]
    expected = {
        "SUM": [sum(column) for column in columns],
        "MIN": [min(column) for column in columns],
        "MAX": [max(column) for column in columns],
    }
    for told in ranks:
        for kind in ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8"):
            for name, values in expected.items():
                assert told[f"{kind} {name}"] == values, (kind, name)
        assert told["float32 AVG"] == [sum(column) / size for column in columns]
        assert told["float64 PRODUCT"] == ([2, 8, 9] if size == 2 else [6, 48, 27])
        assert told["broadcast"] == [size - 1] * 2
        assert told["all gather"] == [[10 * rank] for rank in range(size)]
    for rank, told in enumerate(ranks):
        assert told["reduce scatter"] == [sum(r + 2 * rank + i for r in range(size)) for i in range(2)]
        assert told["all to all"] == [10 * r + rank for r in range(size)]
    assert ranks[0]["reduce"] == [sum(first)]
    assert ranks[1]["send"][0] == 0
    assert [ranks[rank]["group"] for rank in (0, 1)] == [[3], [3]]


def _large() -> list[float]:
    import torch

    rank, _ = _join()
    values = torch.full((3 * MIB,), float(rank + 1)).cuda()  # 12 MiB: several rounds through the shared memory
    torch.distributed.all_reduce(values)
    host = values.cpu()
    return [host.min().item(), host.max().item()]


def test_a_large_tensor_is_reduced_in_rounds() -> None:
    ended = run_ranks(_large, ranks=2, count=2, copy_bytes=COPY_BYTES)
    assert [one.value for one in ended] == [[3.0, 3.0]] * 2


def test_without_values_a_large_tensor_only_meets() -> None:
    ended = run_ranks(_large, ranks=2, count=2)
    assert [one.value for one in ended] == [[0.0, 0.0]] * 2


def _ddp() -> dict[str, Any]:
    import torch

    from tests.cuda.values import Values

    rank, size = _join()
    torch.manual_seed(rank)  # different weights: DDP takes those of rank 0
    with Values():
        model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
        start = model.state_dict()
        ddp = torch.nn.parallel.DistributedDataParallel(model.to(f"cuda:{rank}"), device_ids=[rank])
        inputs = torch.arange(size * 3 * 8, dtype=torch.float32).view(size, 3, 8) / 50
        ddp(inputs[rank].to(f"cuda:{rank}")).pow(2).mean().backward()
        torch.cuda.synchronize()
        gradients = [parameter.grad.cpu() for parameter in model.parameters()]  # type: ignore[union-attr]
        weights = [parameter.detach().cpu() for parameter in model.parameters()]
    twin = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    twin.load_state_dict(dict(zip(start, weights, strict=True)))
    twin(inputs.view(-1, 8)).pow(2).mean().backward()
    return {
        "gradients": [gradient.double().sum().item() for gradient in gradients],
        "largest_error": max(
            (a - b.grad).abs().max().item()
            for a, b in zip(gradients, twin.parameters(), strict=True)  # type: ignore[operator]
        ),
        "largest": max(gradient.abs().max().item() for gradient in gradients),
    }


def test_ddp_gives_both_ranks_the_gradient_of_the_whole_batch() -> None:
    first, second = (one.value for one in run_ranks(_ddp, ranks=2, count=2, copy_bytes=COPY_BYTES))
    assert first["gradients"] == second["gradients"]
    assert first["largest"] > 0.01
    assert first["largest_error"] < 1e-6


def _contexts() -> list[list[int]]:
    import pynvml
    import torch

    rank, _ = _join()
    model = torch.nn.Linear(8, 8, device=f"cuda:{rank}")
    torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])(
        torch.ones(2, 8, device=f"cuda:{rank}")
    ).sum().backward()
    torch.cuda.synchronize()
    torch.distributed.barrier()
    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(2)]
    told = [[process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)] for handle in handles]
    torch.distributed.barrier()
    return [*told, [os.getpid()]]


def test_a_rank_has_a_context_on_its_own_gpu_only() -> None:
    (*first, own), (*second, other) = (one.value for one in run_ranks(_contexts, ranks=2, count=2))
    assert first == second == [own, other]


def _dies_before_the_collective() -> str:
    import torch

    rank, _ = _join()
    torch.distributed.barrier()
    if rank == 1:
        os._exit(7)
    torch.distributed.all_reduce(torch.ones(3, device="cuda"))
    torch.cuda.synchronize()
    return "went on"


def test_the_peer_of_a_dead_rank_ends_with_ncclremoteerror() -> None:
    survivor, dead = run_ranks(_dies_before_the_collective, ranks=2, count=2, may_fail=True, variables=QUICKLY)
    assert dead.code == 7
    assert survivor.code not in (0, -9), survivor.stderr
    assert "ncclRemoteError" in survivor.stderr


def _one_comes_never(reached: str) -> None:
    import torch

    rank, _ = _join()
    torch.distributed.barrier()
    if rank == 1:
        time.sleep(PATIENCE_S)
    torch.distributed.distributed_c10d._set_pg_timeout(timedelta(seconds=2))
    torch.distributed.all_reduce(torch.ones(3, device="cuda"))
    Path(reached).touch()
    torch.cuda.synchronize()


def test_a_collective_that_nobody_joins_runs_into_torchs_time_limit(tmp_path: Path) -> None:
    reached = tmp_path / "the host goes on"
    waiting = run_ranks(
        _one_comes_never, str(reached), ranks=2, count=2, may_fail=True, kill_with_first=True, variables=QUICKLY
    )[0]
    assert reached.exists(), waiting.stderr
    assert waiting.code not in (0, -9), waiting.stderr
    assert "Watchdog caught collective operation timeout" in waiting.stderr


def _same_gpu() -> None:
    import torch

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(0)
    torch.distributed.init_process_group("nccl", init_method=os.environ["STORE"], rank=rank, world_size=2)
    torch.distributed.barrier(device_ids=[0])


def test_two_ranks_on_one_gpu_are_refused() -> None:
    ended = run_ranks(_same_gpu, ranks=2, count=2, may_fail=True)
    for one in ended:
        assert one.code == 1
        assert "Duplicate GPU detected" in one.stderr


def _mismatched() -> None:
    import torch

    rank, _ = _join()
    torch.distributed.all_reduce(torch.ones(3 + rank, device="cuda"))
    torch.cuda.synchronize()


def test_collectives_of_unlike_sizes_fail_in_words() -> None:
    ended = run_ranks(_mismatched, ranks=2, count=2, may_fail=True, variables=QUICKLY)
    for one in ended:
        assert one.code != 0
        assert "ncclInvalidUsage" in one.stderr
