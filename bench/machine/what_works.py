"""What one can do on this machine, item by item: whether it works, and the figure or the reason. No torch here."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.measure.host import cpu_16bit_dtypes
from bench.telemetry.nvml import NvmlReport


@dataclass(frozen=True)
class Item:
    """State one thing people want to do."""

    what: str
    works: bool
    why: str
    """Within what limits it works, or why it does not."""


def what_works(
    device: str, nvml: NvmlReport, files: tuple[str, ...], torch: dict[str, Any], corpora: dict[str, Any]
) -> list[Item]:
    """List what works for trials on `device`: auto, cpu or cuda.

    Args:
        device: what is asked for.
        nvml: what NVML says.
        files: the device files of GPUs.
        torch: what `probe_torch` says; nulls where torch cannot be imported.
        corpora: where prepared corpora are kept, and whether they can be.
    """
    is_visible = bool(nvml.gpus or files)
    return [
        *_on_the_cpu(device, is_visible, torch),
        *_on_gpus(device, is_visible, torch),
        _figures(nvml),
        _fork_server(),
        _corpora(corpora),
    ]


def _on_the_cpu(device: str, gpu_is_visible: bool, torch: dict[str, Any]) -> Iterator[Item]:
    modes = "amp_mode fp32, bf16 and fp16; tf32 is skipped: on a CPU it is fp32"
    has = cpu_16bit_dtypes()
    emulated = [] if has is None else [dtype for dtype in ("bf16", "fp16") if dtype not in has]
    if emulated:
        modes += f"; slow in {' and '.join(emulated)}, which this processor has no units for"
    if torch["torch_version"] is None:
        yield Item("trials on the CPU", False, "torch cannot be imported")
        return
    if gpu_is_visible and device != "cpu":
        modes = f"with --device cpu, which ignores the GPU; {modes}"
    yield Item("trials on the CPU", True, modes)
    ranks = "world_size 2 and more, over gloo" if torch["has_gloo"] else "this torch has no gloo"
    yield Item("several ranks on the CPU", torch["has_gloo"], ranks)


def _on_gpus(device: str, gpu_is_visible: bool, torch: dict[str, Any]) -> Iterator[Item]:
    count, nccl = torch["device_count"], torch["nccl_version"]
    if device == "cpu":
        yield Item("trials on a GPU", False, "the CPU was asked for")
        return
    if count == 0:
        yield Item("trials on a GPU", False, "torch cannot use the GPU" if gpu_is_visible else "there is no GPU here")
        return
    yield Item("trials on a GPU", True, f"world_size up to {count}")
    bf16 = torch["bf16_supported"]
    yield Item("amp_mode bf16 on a GPU", bf16, "in hardware" if bf16 else "this GPU does not compute in bf16: use fp16")
    if count == 1:
        yield Item("several GPUs in one trial", False, "only one is usable")
    else:
        yield Item("several GPUs in one trial", bool(nccl), f"over NCCL {nccl}" if nccl else "this torch has no NCCL")


def _figures(nvml: NvmlReport) -> Item:
    what = "GPU telemetry"
    if nvml.problem is not None or not nvml.gpus:
        return Item(what, False, nvml.problem or "NVML lists no GPU")
    return Item(what, True, "memory in use, clocks and other processes, through NVML")


def _fork_server() -> Item:
    works = "forkserver" in multiprocessing.get_all_start_methods()
    why = (
        "from a warm fork server"
        if works
        else "this system has no fork server: ranks start by spawn, which takes seconds"
    )
    return Item("launches in milliseconds", works, why)


def _corpora(corpora: dict[str, Any]) -> Item:
    folder, works = corpora["corpus_cache_folder"], corpora["corpus_cache_writable"]
    why = "in the folder above" if works else f"{folder} cannot be written: set XDG_CACHE_HOME"
    return Item("prepared corpora are kept", works, why)
