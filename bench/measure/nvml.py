"""What the NVIDIA driver's library says is in this machine. No torch: it speaks of GPUs that torch may not see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class NvmlGpu:
    """State one GPU as the driver numbers it: by PCI bus, blind to CUDA_VISIBLE_DEVICES. Null: not told."""

    index: int
    name: str | None
    uuid: str | None
    total_bytes: int | None
    used_bytes: int | None
    """By every process on the device [bytes]."""
    compute_processes: int | None
    """Processes that compute on it now; their ids may be those of another container."""


@dataclass(frozen=True)
class NvmlReport:
    """State what NVML found, or why it found nothing."""

    driver_version: str | None
    gpus: tuple[NvmlGpu, ...]
    problem: str | None
    """Why NVML could not be asked, in plain words; None when it answered."""


def read_nvml() -> NvmlReport:
    """Ask NVML for the driver and the GPUs; never raises. Each figure may be missing on its own."""
    try:
        import pynvml
    except ImportError:
        return NvmlReport(None, (), "the Python package nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return NvmlReport(None, (), _plain(error))
    try:
        driver = _text(_ask(pynvml.nvmlSystemGetDriverVersion))
        count = _ask(pynvml.nvmlDeviceGetCount) or 0
        gpus = tuple(_read_gpu(pynvml, index) for index in range(count))
        return NvmlReport(driver, gpus, None)
    finally:
        _ask(pynvml.nvmlShutdown)


def device_files() -> tuple[str, ...]:
    """List the files through which GPUs are reached, such as /dev/nvidia0; they exist without NVML too."""
    return tuple(sorted(str(path) for path in Path("/dev").glob("nvidia[0-9]*")))


def _read_gpu(pynvml: Any, index: int) -> NvmlGpu:
    handle = _ask(lambda: pynvml.nvmlDeviceGetHandleByIndex(index))
    if handle is None:
        return NvmlGpu(index, None, None, None, None, None)
    memory = _ask(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)) or _ask(
        lambda: pynvml.nvmlDeviceGetMemoryInfo(handle)
    )
    processes = _ask(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
    return NvmlGpu(
        index=index,
        name=_text(_ask(lambda: pynvml.nvmlDeviceGetName(handle))),
        uuid=_text(_ask(lambda: pynvml.nvmlDeviceGetUUID(handle))),
        total_bytes=None if memory is None else int(memory.total),
        used_bytes=None if memory is None else int(memory.used),
        compute_processes=None if processes is None else len(processes),
    )


def _ask(question: Callable[[], ValueT]) -> ValueT | None:
    """Ask one thing; None when this device, driver or permission does not tell."""
    import pynvml

    try:
        return question()
    except (pynvml.NVMLError, AttributeError):
        return None


def _text(value: str | bytes | None) -> str | None:
    """Older nvidia-ml-py gives bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _plain(error: Exception) -> str:
    name = type(error).__name__
    if name == "NVMLError_LibraryNotFound":
        return "no NVIDIA driver library (libnvidia-ml.so.1) on this machine"
    if name == "NVMLError_DriverNotLoaded":
        return "the NVIDIA driver is not loaded"
    if name == "NVMLError_NoPermission":
        return "no permission to ask the NVIDIA driver"
    if name == "NVMLError_LibRmVersionMismatch":
        return "the NVIDIA driver and its library are of different versions; the machine needs a restart"
    return f"NVML: {error}"
