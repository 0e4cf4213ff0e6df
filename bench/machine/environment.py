"""What this machine can run. Nothing falls back to the CPU silently. No torch here."""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import bench as package
from bench.errors import EnvironmentFault
from bench.launch.start_guards import limits_named
from bench.machine.visible_gpus import explain_visible, hides_every_gpu
from bench.standin import is_standin
from bench.sweep.expand import MachineFacts
from bench.telemetry.nvml import NvmlReport, device_files, read_nvml

_PROBE_TIMEOUT_S = 300.0


def machine_facts(devices_asked: set[str]) -> MachineFacts:
    """Tell what `device: auto` becomes and how many GPUs torch can use.

    Args:
        devices_asked: every value of `device` in the sweep: auto, cpu, cuda.

    Raises:
        EnvironmentFault: CUDA is asked for or a GPU is visible, and torch cannot use one.
    """
    if devices_asked == {"cpu"}:
        return MachineFacts("cpu", 0)
    nvml, files = read_nvml(), device_files()
    if not (nvml.gpus or files) and "cuda" not in devices_asked:
        return MachineFacts("cpu", 0)
    torch = probe_torch()
    fault = gpu_fault(devices_asked, nvml, files, torch)
    if fault is not None:
        raise EnvironmentFault(fault)
    uuids = tuple(gpu["uuid"] for gpu in torch.get("gpus", ()))
    return MachineFacts("cuda", torch["device_count"], torch["bf16_supported"], uuids, not is_standin())


def gpu_fault(devices_asked: set[str], nvml: NvmlReport, files: tuple[str, ...], torch: dict[str, Any]) -> str | None:
    """Say why no trial may start: a GPU is asked for, or visible and not declined, and torch cannot use it.

    Args:
        devices_asked: every value of `device` that is asked for.
        nvml: what NVML says.
        files: the device files of GPUs.
        torch: what `probe_torch` says.

    Returns:
        The fault with its cure; None when trials may start.
    """
    if devices_asked == {"cpu"} or torch["device_count"]:
        return None
    if nvml.gpus or files:
        return unusable_gpu(nvml, files, torch)
    if "cuda" not in devices_asked:
        return None
    return (
        f"device = cuda, but there is no GPU here ({nvml.problem or 'NVML sees none'}). "
        "Use --device cpu, or a machine with a GPU."
    )


def unusable_gpu(nvml: NvmlReport, files: tuple[str, ...], torch: dict[str, Any]) -> str:
    """Say that torch cannot use a GPU of this machine, why, and what to do."""
    names = ", ".join(sorted({gpu.name or "an unnamed GPU" for gpu in nvml.gpus})) or ", ".join(files)
    driver = f"driver {nvml.driver_version}" if nvml.driver_version else "driver unknown"
    if nvml.problem:
        driver += f": {nvml.problem}"
    build = f"CUDA {torch['cuda_version']}" if torch["cuda_version"] else "a CPU build"
    told = f" torch says: {torch['problem'].rstrip('.')}." if torch["problem"] else ""
    return (
        f"This machine has {names} ({driver}), but torch {torch['torch_version']} ({build}) cannot use it.{told} "
        f"Either {_cure(nvml, torch)}; or run on the CPU: --device cpu, or device: cpu in the sweep file."
    )


def _cure(nvml: NvmlReport, torch: dict[str, Any]) -> str:
    """Say what would make the GPU usable."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    runs = f" {nvml.driver_cuda_version} or older, which this driver runs" if nvml.driver_cuda_version else ""
    if torch["cuda_version"] is None:
        return f"install a torch built for CUDA{runs} (https://pytorch.org/get-started)"
    if hides_every_gpu(visible):
        return f"unset CUDA_VISIBLE_DEVICES: {explain_visible(visible, nvml.gpus)}"
    if nvml.driver_cuda_version and _major(torch["cuda_version"]) > _major(nvml.driver_cuda_version):
        return f"install a torch built for CUDA{runs}, or a newer driver"
    if visible is not None:
        meaning = explain_visible(visible, nvml.gpus)
        return f"correct or unset CUDA_VISIBLE_DEVICES ({meaning}), or fix what torch reports"
    if nvml.problem and not nvml.gpus:
        return "repair the driver"
    return "install a torch whose CUDA this driver and this GPU support, or a newer driver"


def _major(cuda_version: str) -> int:
    return int(cuda_version.split(".")[0])


def probe_torch(every_gpu: bool = False) -> dict[str, Any]:
    """Ask torch in a process of its own what it is and which GPUs it can use.

    Args:
        every_gpu: compute something on each GPU, not on the first alone.

    Raises:
        EnvironmentFault: torch cannot be imported, or a GPU does not answer.
    """
    command = [sys.executable, "-m", "bench.rank.torch_probe", *(["--every-gpu"] if every_gpu else [])]
    try:
        with limits_named():
            done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False)
        document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise EnvironmentFault(f"torch did not answer within {_PROBE_TIMEOUT_S:.0f} s: a GPU may hang.") from None
    except (ValueError, IndexError):
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise EnvironmentFault(
            f"torch cannot be used here: {last[0]}. Try: {sys.executable} -c 'import torch', then reinstall it."
        ) from None
    return document


def software_versions() -> dict[str, str | None]:
    """List the versions that a result depends on, without importing them."""
    names = ("torch", "numpy", "pyarrow", "pandas", "nvidia-ml-py")
    return {"python": platform.python_version(), "bench": package.__version__} | {
        name: _version(name) for name in names
    }


def describe_machine(facts: MachineFacts) -> dict[str, Any]:
    """State the machine for `env.json`."""
    nvml = read_nvml()
    return {
        "hostname": socket.gethostname(),
        "platform": platform.platform(),
        "device": facts.device,
        "cuda_device_count": facts.cuda_device_count,
        "driver_version": nvml.driver_version,
        "gpus": [{"name": gpu.name, "uuid": gpu.uuid, "total_bytes": gpu.total_bytes} for gpu in nvml.gpus],
        "nvml_problem": nvml.problem,
        "versions": software_versions(),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
