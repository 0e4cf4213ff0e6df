"""What the NVIDIA driver's library says is in this machine. No torch: it speaks of GPUs that torch may not see.

Every figure may be missing on its own: a MIG device, a container, an old driver or a missing right each hide some. What
is not told is None, never 0. A hung driver must not hang the benchmark, so each call has a time limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bench.telemetry.time_limit import LimitedThread, NoAnswerError

ValueT = TypeVar("ValueT")

INIT_LIMIT_S = 20.0
"""Where no process keeps the driver loaded (persistence mode off), the first call loads it: seconds with eight GPUs."""
CALL_LIMIT_S = 2.0
"""A call that takes longer has hung [s]."""
_DEV = Path("/dev")


@dataclass(frozen=True)
class NvmlProcess:
    """State one process that computes on a GPU."""

    pid: int
    """Process id; in a container it may be the id on the host."""
    used_bytes: int | None


@dataclass(frozen=True)
class NvmlMig:
    """State one slice of a GPU that was cut up (MIG)."""

    uuid: str | None
    """As CUDA_VISIBLE_DEVICES takes it: MIG-..."""
    name: str | None
    total_bytes: int | None
    used_bytes: int | None


@dataclass(frozen=True)
class NvmlGpu:
    """State one GPU as the driver numbers it: by PCI bus, blind to CUDA_VISIBLE_DEVICES. Null: not told."""

    index: int
    name: str | None = None
    uuid: str | None = None
    """As CUDA_VISIBLE_DEVICES takes it: GPU-..."""
    total_bytes: int | None = None
    used_bytes: int | None = None
    """By every process on the device, without what the driver keeps for itself [bytes]."""
    processes: tuple[NvmlProcess, ...] | None = None
    """Processes that compute on it now."""
    sm_clock_mhz: int | None = None
    """Clock of the multiprocessors now [MHz]."""
    sm_clock_max_mhz: int | None = None
    mig_devices: tuple[NvmlMig, ...] = ()


@dataclass(frozen=True)
class NvmlReport:
    """State what NVML found, or why it found nothing."""

    driver_version: str | None = None
    gpus: tuple[NvmlGpu, ...] = ()
    problem: str | None = None
    """Why NVML could not be asked, or not to the end, in plain words; None when it answered."""
    driver_cuda_version: str | None = None
    """Newest CUDA that the driver runs, such as 12.4."""


def read_nvml(init_limit_s: float = INIT_LIMIT_S, call_limit_s: float = CALL_LIMIT_S) -> NvmlReport:
    """Ask NVML for the driver and the GPUs; never hangs, and raises nothing that NVML or its bindings do.

    Raises:
        EnvironmentFault: The machine has no thread left to ask it in.
    """
    try:
        import pynvml
    except ImportError:
        return NvmlReport(problem="the Python package nvidia-ml-py is not installed")
    if hung:
        return NvmlReport(problem=hung[0])
    reader = _Reader(pynvml, LimitedThread("nvml"), call_limit_s)
    try:
        reader.read(init_limit_s)
    except NoAnswerError:
        reader.problem = note_hung()
    except pynvml.NVMLError as error:
        reader.problem = say_fault(error)
    except OSError as error:  # a library of that name that is not NVIDIA's, or is damaged
        reader.problem = f"the NVIDIA driver library cannot be used: {error}"
    return NvmlReport(reader.driver_version, tuple(reader.gpus), reader.problem, reader.driver_cuda_version)


def device_files() -> tuple[str, ...]:
    """List the files through which GPUs are reached, such as /dev/nvidia0; they exist without NVML too."""
    return tuple(sorted(str(path) for path in _DEV.glob("nvidia[0-9]*")))


hung: list[str] = []
"""Why NVML is not asked again by this process; empty while it answers."""


def note_hung() -> str:
    """Keep in mind that NVML does not answer; give that in plain words."""
    hung[:] = ["the NVIDIA driver library does not answer; the driver or a GPU hangs"]
    return hung[0]


@dataclass
class _Reader:
    """Collect what NVML tells, so that what is known survives a call that hangs."""

    nvml: Any
    thread: LimitedThread
    call_limit_s: float
    driver_version: str | None = None
    driver_cuda_version: str | None = None
    gpus: list[NvmlGpu] = field(default_factory=list)
    problem: str | None = None

    def read(self, init_limit_s: float) -> None:
        nvml = self.nvml
        self.thread.ask(nvml.nvmlInit, init_limit_s)
        self.driver_version = _text(self.ask(nvml.nvmlSystemGetDriverVersion))
        cuda = self.ask(nvml.nvmlSystemGetCudaDriverVersion_v2)
        self.driver_cuda_version = None if not cuda else f"{cuda // 1000}.{cuda % 1000 // 10}"
        count = self.ask(nvml.nvmlDeviceGetCount) or 0
        self.gpus = [NvmlGpu(index) for index in range(count)]
        for index in range(count):
            self.gpus[index] = self.read_gpu(index)
        self.ask(nvml.nvmlShutdown)
        self.thread.close()

    def read_gpu(self, index: int) -> NvmlGpu:
        nvml = self.nvml
        handle = self.ask(lambda: nvml.nvmlDeviceGetHandleByIndex(index))
        if handle is None:
            return NvmlGpu(index)
        total_bytes, used_bytes = self.read_memory(handle)
        processes = self.ask(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        return NvmlGpu(
            index=index,
            name=_text(self.ask(lambda: nvml.nvmlDeviceGetName(handle))),
            uuid=_text(self.ask(lambda: nvml.nvmlDeviceGetUUID(handle))),
            total_bytes=total_bytes,
            used_bytes=used_bytes,
            processes=None
            if processes is None
            else tuple(NvmlProcess(process.pid, process.usedGpuMemory) for process in processes),
            sm_clock_mhz=self.ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            sm_clock_max_mhz=self.ask(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
            mig_devices=tuple(self.read_mig(handle)),
        )

    def read_memory(self, handle: Any) -> tuple[int | None, int | None]:
        """Read total and used bytes. The older call counts the driver's own memory as used: then used is not told."""
        nvml = self.nvml
        memory = self.ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
        if memory is not None:
            return int(memory.total), int(memory.used)
        memory = self.ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        return (None, None) if memory is None else (int(memory.total), None)

    def read_mig(self, handle: Any) -> list[NvmlMig]:
        nvml = self.nvml
        mode = self.ask(lambda: nvml.nvmlDeviceGetMigMode(handle))
        if mode is None or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
            return []
        found = []
        for index in range(self.ask(lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0):
            mig = self.ask(lambda index=index: nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))  # type: ignore[misc]
            if mig is not None:
                uuid = _text(self.ask(lambda mig=mig: nvml.nvmlDeviceGetUUID(mig)))  # type: ignore[misc]
                name = _text(self.ask(lambda mig=mig: nvml.nvmlDeviceGetName(mig)))  # type: ignore[misc]
                found.append(NvmlMig(uuid, name, *self.read_memory(mig)))
        return found

    def ask(self, question: Callable[[], ValueT]) -> ValueT | None:
        """Ask one thing; None when this device, driver or permission does not tell.

        Raises:
            NoAnswerError: The library hangs.
        """
        try:
            return self.thread.ask(question, self.call_limit_s)
        except refusals(self.nvml):
            return None


def refusals(nvml: Any) -> tuple[type[Exception], ...]:
    """Give what the bindings raise where a device, driver, binding or permission does not tell one figure.

    For a function that this driver has only by an older name they raise an error that is not among their own.
    """
    return (nvml.NVMLError, nvml.NVMLLibraryMismatchError, AttributeError, UnicodeDecodeError)


def _text(value: str | bytes | None) -> str | None:
    """Older nvidia-ml-py gives bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def say_fault(error: Exception) -> str:
    """Say in plain words what NVML refuses."""
    return {
        "NVMLError_LibraryNotFound": "there is no NVIDIA driver library, libnvidia-ml.so.1",
        "NVMLError_FunctionNotFound": "the NVIDIA driver library is too old to be asked",
        "NVMLError_DriverNotLoaded": "the NVIDIA driver is not loaded",
        "NVMLError_NoPermission": "there is no permission to ask the NVIDIA driver",
        "NVMLError_LibRmVersionMismatch": "the NVIDIA driver and its library are of different versions: "
        "the driver was updated, and the machine must restart",
        "NVMLError_GpuIsLost": "a GPU has fallen off the bus",
    }.get(type(error).__name__, f"NVML says: {error}")
