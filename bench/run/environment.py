"""What this machine can run. Nothing falls back to the CPU in silence. No torch here."""

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
from bench.measure.nvml import NvmlReport, device_files, read_nvml
from bench.sweep.expand import MachineFacts

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
    nvml = read_nvml()
    visible = bool(nvml.gpus) or bool(device_files())
    if not visible and "cuda" not in devices_asked:
        return MachineFacts("cpu", 0)
    if not visible:
        raise EnvironmentFault(f"device = cuda - {_what_is_missing(nvml)} - use --device cpu, or a machine with a GPU.")
    torch = probe_torch()
    if torch["device_count"] == 0:
        raise EnvironmentFault(unusable_gpu(nvml, torch))
    return MachineFacts("cuda", torch["device_count"], torch["bf16_supported"])


def unusable_gpu(nvml: NvmlReport, torch: dict[str, Any]) -> str:
    """Say that a GPU is here which torch cannot use, why, and the way out."""
    names = ", ".join(sorted({gpu.name or "a GPU" for gpu in nvml.gpus})) or ", ".join(device_files())
    build = f"CUDA {torch['cuda_version']}" if torch["cuda_version"] else "a CPU build"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if torch["cuda_version"] is None:
        cure = "install a CUDA build of torch that fits the driver"
    elif hidden is not None and hidden.strip() in ("", "-1"):
        cure = f"CUDA_VISIBLE_DEVICES={hidden!r} hides every GPU: unset it"
    else:
        cure = "install a torch whose CUDA this driver supports, or a newer driver"
    told = f" torch says: {torch['problem']}." if torch["problem"] else ""
    return (
        f"this machine has {names} (driver {nvml.driver_version or 'unknown'}), but torch {torch['torch_version']} "
        f"({build}) cannot use it.{told} Either {cure}; or say that the CPU is meant: --device cpu, or device: cpu "
        "in the sweep file."
    )


def probe_torch() -> dict[str, Any]:
    """Ask torch in a process of its own what it is and which GPUs it can use.

    Raises:
        EnvironmentFault: torch cannot be imported.
    """
    command = [sys.executable, "-m", "bench.run.torch_probe"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False)
        document: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise EnvironmentFault(f"torch did not answer within {_PROBE_TIMEOUT_S:.0f} s; is the GPU hung?") from None
    except ValueError:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise EnvironmentFault(f"torch cannot be used here: {last[0]}") from None
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


def _what_is_missing(nvml: NvmlReport) -> str:
    return f"there is no GPU here ({nvml.problem or 'NVML sees none'})"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
