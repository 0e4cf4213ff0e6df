"""What NVML, the NVIDIA driver's library, finds in this machine. No torch: torch may not see all of these GPUs.

Any figure may be missing: a MIG device, a container, an old driver or a missing permission each hide some. A missing
figure is None, never 0. A hung driver must not hang the benchmark, so each call has a time limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.telemetry.time_limit import LimitedThread, NoAnswerError

FIRST_LIMIT_S = 60.0
"""Limit of a call that may bring GPUs up or down: with persistence mode off, seconds for each of them [s]."""
CALL_LIMIT_S = 2.0
"""Limit of any other call: one that takes longer has hung [s]."""
HANGS_AT_MOST = 3
"""Hangs in a row after which this process asks NVML no more, even though each call came back in the end."""
FIRST_CALLS = frozenset(
    {
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetHandleByUUID",
        "nvmlDeviceGetMigDeviceHandleByIndex",
        "nvmlShutdown",
    }
)
"""Calls that may bring GPUs up or down: nvmlInit finds none; by NVIDIA's NVML reference the calls for a handle do, and
that by UUID may bring up every GPU on its way to the one it looks for. The last shutdown lets go of them all."""
NO_ANSWER = "the NVIDIA driver library does not answer; the driver or a GPU hangs"
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
    """State one GPU as the driver numbers it: by PCI bus, ignoring CUDA_VISIBLE_DEVICES. Null: unknown."""

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
    persistence_mode: bool | None = None
    """Whether the driver keeps the GPU ready while nobody uses it; without it each start takes seconds longer."""
    mig_devices: tuple[NvmlMig, ...] = ()


@dataclass(frozen=True)
class NvmlReport:
    """State what NVML found, or why it found nothing."""

    driver_version: str | None = None
    gpus: tuple[NvmlGpu, ...] = ()
    problem: str | None = None
    """Why NVML gave no answer, or only a partial one, in plain words; None when it answered."""
    driver_cuda_version: str | None = None
    """Newest CUDA that the driver runs, such as 12.4."""


def read_nvml(first_limit_s: float = FIRST_LIMIT_S, call_limit_s: float = CALL_LIMIT_S) -> NvmlReport:
    """Ask NVML for the driver and the GPUs; never hangs, and raises nothing that NVML or its bindings do.

    Raises:
        EnvironmentFault: The machine has no thread left to ask it in.
    """
    try:
        import pynvml
    except ImportError:
        return NvmlReport(problem="the Python package nvidia-ml-py is not installed")
    if (problem := hangs.problem()) is not None:
        return NvmlReport(problem=problem)
    reader = _Reader(NvmlSession(pynvml, "nvml", call_limit_s, first_limit_s))
    problem = problem_of(pynvml, reader.read)
    if problem is None:
        hangs.forget()
    reader.session.close()
    return NvmlReport(reader.driver_version, tuple(reader.gpus), problem, reader.driver_cuda_version)


def device_files() -> tuple[str, ...]:
    """List the files through which GPUs are reached, such as /dev/nvidia0; they exist without NVML too."""
    return tuple(sorted(str(path) for path in _DEV.glob("nvidia[0-9]*")))


class Hangs:
    """Remember which thread hangs in the library, so that there is never a second one.

    While it hangs nobody asks: any other call would wait for the same locks of the driver. Once it came back, the
    library was slow, not dead, and is asked again; after some hangs in a row it is left alone for good.
    """

    def __init__(self) -> None:
        self._last: LimitedThread | None = None
        self._in_a_row = 0

    def note(self, thread: LimitedThread) -> None:
        """Note that a thread was left behind."""
        self._last = thread
        self._in_a_row += 1

    def forget(self) -> None:
        """Note that the library answered all that it was asked."""
        self._last = None
        self._in_a_row = 0

    def problem(self) -> str | None:
        """Say why NVML is not asked now; None where it may be."""
        if self._last is None or not (self._last.hangs or self._in_a_row >= HANGS_AT_MOST):
            return None
        return NO_ANSWER


hangs = Hangs()
"""Those of this process."""


class NvmlSession:
    """Ask NVML one thing after another, each within a time limit.

    Args:
        nvml: The bindings (the module pynvml, or what stands for it in a test).
        name: Of the thread that asks.
        call_limit_s: Limit of one call [s].
        first_limit_s: Limit of one that may bring GPUs up or down [s].
        is_over: Whether nobody waits for the rest of the answers: then nothing more is asked.
        on_refusal: Called with the reason when NVML refuses a figure.

    Raises:
        EnvironmentFault: The machine has no thread left to ask in.
    """

    def __init__(
        self,
        nvml: Any,
        name: str,
        call_limit_s: float,
        first_limit_s: float,
        is_over: Callable[[], bool] = lambda: False,
        on_refusal: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self.nvml = nvml
        self._call_limit_s = call_limit_s
        self._first_limit_s = first_limit_s
        self._is_over = is_over
        self._on_refusal = on_refusal
        self._thread = LimitedThread(name)

    def begin(self) -> None:
        """Start NVML; raises what it does, and NoAnswerError."""
        self._thread.ask(self.nvml.nvmlInit, self._first_limit_s)

    def close(self) -> None:
        """Let the thread end."""
        self._thread.close()

    def ask(self, name: str, *arguments: Any) -> Any:
        """Ask one thing; None when this device, driver, binding or permission does not give it.

        Raises:
            NoAnswerError: The library hangs.
        """
        limit_s = self._first_limit_s if name in FIRST_CALLS else self._call_limit_s
        return self._tell(lambda: getattr(self.nvml, name)(*arguments), limit_s)

    def memory(self, device: Any) -> Any:
        """Ask for memory by the newer call: the older one counts the driver's own as used."""
        return self._tell(
            lambda: self.nvml.nvmlDeviceGetMemoryInfo(device, self.nvml.nvmlMemory_v2), self._call_limit_s
        )

    def persistence_mode(self, device: Any) -> bool | None:
        """Ask whether the driver keeps a GPU ready while nobody uses it."""
        mode = self.ask("nvmlDeviceGetPersistenceMode", device)
        return None if mode is None else bool(mode)

    def processes(self, device: Any) -> tuple[NvmlProcess, ...] | None:
        """List the processes that compute on a device now."""
        listed = self.ask("nvmlDeviceGetComputeRunningProcesses", device)
        if listed is None:
            return None
        return tuple(NvmlProcess(process.pid, process.usedGpuMemory) for process in listed)

    def _tell(self, question: Callable[[], Any], limit_s: float) -> Any:
        if self._is_over():
            return None
        try:
            return self._thread.ask(question, limit_s)
        except (self.nvml.NVMLError, self.nvml.NVMLLibraryMismatchError, AttributeError, UnicodeDecodeError) as error:
            # For a function that this driver has only by an older name the bindings raise an error not of their own.
            self._on_refusal(error)
            return None


def problem_of(nvml: Any, questions: Callable[[], None]) -> str | None:
    """Ask NVML and catch whatever it raises. Give in plain words why the answer is missing or partial."""
    if (problem := hangs.problem()) is not None:
        return problem
    try:
        questions()
    except NoAnswerError as error:
        hangs.note(error.thread)
        return NO_ANSWER
    except nvml.NVMLError as error:
        return say_fault(error)
    except OSError as error:  # a library of that name that is not NVIDIA's, or is damaged
        return f"the NVIDIA driver library cannot be used: {error}"
    return None


@dataclass
class _Reader:
    """Collect what NVML tells, so that what is known survives a call that hangs."""

    session: NvmlSession
    driver_version: str | None = None
    driver_cuda_version: str | None = None
    gpus: list[NvmlGpu] = field(default_factory=list)

    def read(self) -> None:
        ask = self.session.ask
        self.session.begin()
        self.driver_version = _text(ask("nvmlSystemGetDriverVersion"))
        cuda = ask("nvmlSystemGetCudaDriverVersion_v2")
        self.driver_cuda_version = None if not cuda else f"{cuda // 1000}.{cuda % 1000 // 10}"
        count = ask("nvmlDeviceGetCount") or 0
        self.gpus = [NvmlGpu(index) for index in range(count)]
        for index in range(count):
            self.gpus[index] = self.read_gpu(index)
        ask("nvmlShutdown")

    def read_gpu(self, index: int) -> NvmlGpu:
        ask, sm = self.session.ask, self.session.nvml.NVML_CLOCK_SM
        handle = ask("nvmlDeviceGetHandleByIndex", index)
        if handle is None:
            return NvmlGpu(index)
        total_bytes, used_bytes = self.read_memory(handle)
        return NvmlGpu(
            index=index,
            processes=self.session.processes(handle),
            name=_text(ask("nvmlDeviceGetName", handle)),
            uuid=_text(ask("nvmlDeviceGetUUID", handle)),
            total_bytes=total_bytes,
            used_bytes=used_bytes,
            sm_clock_mhz=ask("nvmlDeviceGetClockInfo", handle, sm),
            sm_clock_max_mhz=ask("nvmlDeviceGetMaxClockInfo", handle, sm),
            persistence_mode=self.session.persistence_mode(handle),
            mig_devices=tuple(self.read_mig(handle)),
        )

    def read_memory(self, handle: Any) -> tuple[int | None, int | None]:
        """Read total and used bytes; the older call does not give used ones."""
        memory = self.session.memory(handle)
        if memory is not None:
            return int(memory.total), int(memory.used)
        memory = self.session.ask("nvmlDeviceGetMemoryInfo", handle)
        return (None, None) if memory is None else (int(memory.total), None)

    def read_mig(self, handle: Any) -> Iterator[NvmlMig]:
        ask = self.session.ask
        mode = ask("nvmlDeviceGetMigMode", handle)
        if mode is None or mode[0] != self.session.nvml.NVML_DEVICE_MIG_ENABLE:
            return
        for index in range(ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
            mig = ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
            if mig is not None:
                uuid, name = _text(ask("nvmlDeviceGetUUID", mig)), _text(ask("nvmlDeviceGetName", mig))
                yield NvmlMig(uuid, name, *self.read_memory(mig))


def _text(value: str | bytes | None) -> str | None:
    """Older nvidia-ml-py gives bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def say_fault(error: Exception) -> str:
    """Say in plain words what NVML refuses."""
    return {
        "NVMLError_LibraryNotFound": "there is no NVIDIA driver library, libnvidia-ml.so.1",
        "NVMLError_FunctionNotFound": "the NVIDIA driver library is too old",
        "NVMLError_DriverNotLoaded": "the NVIDIA driver is not loaded",
        "NVMLError_NoPermission": "no permission to query the NVIDIA driver",
        "NVMLError_LibRmVersionMismatch": "the NVIDIA driver and its library have different versions: "
        "the driver was updated, restart the machine",
        "NVMLError_GpuIsLost": "a GPU has fallen off the bus",
    }.get(type(error).__name__, f"NVML says: {error}")
