"""The parts of the self-test, each in words and a function; run as a program, in a process that has the stand-in.

Imports torch, so nothing but the program imports it. Prints a line as JSON: the part that failed and why, or nulls.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable

import torch

MEMORY_BYTES = 8 * 1024**3
"""Capacity of the GPUs that the self-test asks for [bytes]."""
_MIB = 1024**2


def two_ranks() -> None:
    """Sum over two processes, forked before any of them touches CUDA."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"file://{folder}/store"
        pids = [_fork(lambda rank=rank: _sum_over_ranks(rank, store)) for rank in range(2)]  # type: ignore[misc]
        failed = [rank for rank, pid in enumerate(pids) if os.waitpid(pid, 0)[1] != 0]
    assert not failed, f"rank {failed[0]} failed"


def _fork(work: Callable[[], None]) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _sum_over_ranks(rank: int, store: str) -> None:
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", init_method=store, rank=rank, world_size=2)
    values = torch.tensor([1.0, 2.0]).cuda() if rank == 0 else torch.tensor([10.0, 20.0]).cuda()
    torch.distributed.all_reduce(values)
    assert values.tolist() == [11.0, 22.0], f"1 + 10, 2 + 20 are {values.tolist()}"


def allocations() -> None:
    """Count bytes as the caching allocator does: blocks of 512 B, segments of 2 MiB and more."""
    before = torch.cuda.memory_allocated()
    small, large = torch.empty(100, device="cuda"), torch.empty(64 * _MIB, dtype=torch.uint8, device="cuda")
    taken = torch.cuda.memory_allocated() - before
    assert taken == 512 + 64 * _MIB, f"100 floats and 64 MiB take {taken} bytes"
    free, total = torch.cuda.mem_get_info()
    assert total == MEMORY_BYTES, f"the GPU has {total} bytes, {MEMORY_BYTES} were asked for"
    assert total - free >= torch.cuda.memory_reserved() > 64 * _MIB
    del small, large


def amp_step() -> None:
    """Make one update as training in fp16 does: autocast, scaler, clipping, fused optimizer, attention."""
    model = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.zeros(2, 16, 64, device="cuda")).float().pow(2).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    torch.cuda.synchronize()
    loss.item()
    missing = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert not missing, f"no gradient for {missing[0]}"


def out_of_memory() -> None:
    """Ask for more than there is; then work on."""
    try:
        torch.empty(MEMORY_BYTES, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        assert torch.cuda.memory_stats()["num_ooms"] == 1
        torch.empty(64 * _MIB, dtype=torch.uint8, device="cuda")
        return
    raise AssertionError("an allocation larger than the GPU was granted")


def nvml() -> None:
    """See the GPU, its memory and this process through the driver's other library."""
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetName(handle) == torch.cuda.get_device_name(0)
    told = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used
    assert told >= torch.cuda.memory_reserved(0), f"NVML tells of {told} bytes in use"
    pids = [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)]
    assert os.getpid() in pids, f"NVML tells of the processes {pids}"


PARTS: dict[str, Callable[[], None]] = {
    "two ranks": two_ranks,  # first: nothing may have touched CUDA before the fork
    "allocations": allocations,
    "an AMP step": amp_step,
    "an out-of-memory error": out_of_memory,
    "NVML": nvml,
}


def main() -> int:
    """Run each part until one fails."""
    for name, part in PARTS.items():
        try:
            part()
        except Exception as error:
            traceback.print_exc()
            print(json.dumps({"failed": name, "why": f"{type(error).__name__}: {error}"}))  # noqa: T201
            return 1
    print(json.dumps({"failed": None, "why": None}))  # noqa: T201
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
