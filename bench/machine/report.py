"""What `bench env` tells: what is here, what works, what does not and why. Base units; null is not known. No torch."""

from __future__ import annotations

import multiprocessing
import os
import platform
import socket
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

import bench as package
from bench.errors import EnvironmentFault
from bench.machine.calibration import DeviceKey, calibrate, read
from bench.machine.environment import gpu_fault, probe_torch, software_versions
from bench.machine.visible_gpus import explain_visible
from bench.machine.what_works import what_works
from bench.measure.host import cgroup_cores, cgroup_memory_bytes, cpu_model, usable_cores
from bench.telemetry.nvml import NvmlGpu, device_files, read_nvml
from bench.workload.data.cache import cache_folder

FORMAT = 1

_NO_TORCH: dict[str, Any] = {
    "torch_version": None,
    "cuda_version": None,
    "cudnn_version": None,
    "nccl_version": None,
    "has_gloo": False,
    "device_count": 0,
    "gpus": [],
    "bf16_supported": False,
    "problem": None,
}


def report_machine(device: str = "auto", measure_ceilings: bool = False, threads: int | None = None) -> dict[str, Any]:
    """Look at the machine and say what works for trials on `device`: auto, cpu or cuda.

    Args:
        device: What is asked for.
        measure_ceilings: Calibrate the device that trials run on, which takes seconds; else say what is kept.
        threads: CPU threads that the ceilings are for; None for every core that may be used.

    Raises:
        EnvironmentFault: The device does not answer the calibration.
        StorageError: The calibration cannot be kept.

    Returns:
        One JSON-serialisable object; `fault` says why no trial may start there, or is None.
    """
    nvml, files = read_nvml(), device_files()
    try:
        torch, fault = probe_torch(every_gpu=device != "cpu"), None
    except EnvironmentFault as error:
        torch, fault = _NO_TORCH | {"problem": str(error)}, str(error)
    fault = fault or gpu_fault({device}, nvml, files, torch)
    corpora = _corpora(cache_folder())
    runs_on = _device(device, fault, torch)
    if measure_ceilings and runs_on is not None:
        ceilings, problems = calibrate(runs_on, threads), []
    else:
        stored = [read(key) for key in _device_keys(runs_on, torch, threads)]
        ceilings = [found.document for found in stored if found.document is not None]
        problems = [found.problem for found in stored if found.problem is not None]
    return {
        "format": FORMAT,
        "hostname": socket.gethostname(),
        "platform": platform.platform(),
        "cpu_model": cpu_model(),
        "cpu_count": usable_cores(),
        "cpu_count_of_machine": psutil.cpu_count(),
        "cpu_limit_cores": cgroup_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "memory_available_bytes": psutil.virtual_memory().available,
        "memory_limit_bytes": cgroup_memory_bytes(),
        "python_version": platform.python_version(),
        "bench_version": package.__version__,
        "packages": software_versions(),
        **{key: torch[key] for key in ("torch_version", "cuda_version", "cudnn_version", "nccl_version")},
        "torch_problem": torch["problem"],
        "driver_version": nvml.driver_version,
        "driver_cuda_version": nvml.driver_cuda_version,
        "nvml_problem": nvml.problem,
        "device_files": list(files),
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "cuda_visible_devices_meaning": explain_visible(
            os.environ.get("CUDA_VISIBLE_DEVICES"), nvml.gpus, os.environ.get("CUDA_DEVICE_ORDER")
        ),
        "gpus": _gpus(nvml.gpus, torch["gpus"]),
        "start_methods": multiprocessing.get_all_start_methods(),
        **corpora,
        "device_asked": device,
        "device": runs_on,
        "fault": fault,
        "ceilings": ceilings,
        "ceilings_problems": problems,
        "works": [asdict(item) for item in what_works(device, nvml, files, torch, corpora)],
    }


def _device(asked: str, fault: str | None, torch: dict[str, Any]) -> str | None:
    """Name the device that trials run on; None when none may start."""
    if fault is not None:
        return None
    return "cuda" if asked != "cpu" and torch["device_count"] else "cpu"


def _device_keys(device: str | None, torch: dict[str, Any], threads: int | None) -> list[DeviceKey]:
    """Name what ceilings may be kept for: the GPUs that torch can use, or the processor."""
    version = torch["torch_version"]
    if device == "cpu":
        return [DeviceKey.cpu(cpu_model(), threads or usable_cores(), version)]
    gpus = torch["gpus"] if device == "cuda" else []
    return [DeviceKey.gpu(gpu["name"], gpu["uuid"], version) for gpu in gpus if gpu["uuid"] and not gpu["problem"]]


def _gpus(driver_gpus: Sequence[NvmlGpu], torch_gpus: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join what the driver and torch say of each GPU, by UUID: their orders differ."""
    by_uuid = {gpu["uuid"]: gpu for gpu in torch_gpus if gpu["uuid"] is not None}
    rows = []
    for gpu in driver_gpus:
        seen = by_uuid.pop(gpu.uuid, None)
        torch_facts = {
            "torch_index": seen and seen["index"],
            "compute_capability": seen and seen["compute_capability"],
            "torch_problem": seen and seen["problem"],
        }
        rows.append(asdict(gpu) | torch_facts)
    matched = {row["torch_index"] for row in rows}
    for seen in torch_gpus:
        if seen["index"] not in matched:
            facts = asdict(NvmlGpu(-1, seen["name"], seen["uuid"], seen["total_bytes"])) | {"index": None}
            torch_facts = {"torch_index": seen["index"], "compute_capability": seen["compute_capability"]}
            rows.append(facts | torch_facts | {"torch_problem": seen["problem"]})
    return rows


def _corpora(folder: Path) -> dict[str, Any]:
    """Say where prepared corpora are kept, how many there are, and whether more can be."""
    entries = [entry for entry in folder.glob("*") if entry.is_dir() and not entry.name.startswith(".")]
    parent = next(path for path in (folder, *folder.parents) if path.exists())
    return {
        "corpus_cache_folder": str(folder),
        "corpus_cache_corpora": len(entries),
        "corpus_cache_bytes": sum(file.stat().st_size for entry in entries for file in entry.glob("*")),
        "corpus_cache_writable": os.access(parent, os.W_OK),
    }
