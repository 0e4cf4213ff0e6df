"""NVML in a script: what each GPU tells at each moment, with the names, errors and structures of the real bindings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

GIB = 1024**3
OWN_PID = 4711
Told = Callable[[float], Any]
"""Moment on the script's clock [s] -> what is told then; an exception is raised."""


@dataclass
class FakeGpu:
    """Tell of a healthy GPU that draws 300 W; each figure can be replaced."""

    uuid: str = "GPU-a"
    energy_mj: Told = lambda s: int(300_000 * s)
    power_mw: Told = lambda s: 300_000
    sm_clock_mhz: Told = lambda s: 1400
    temperature_c: Told = lambda s: 60
    reasons: Told = lambda s: 0
    power_violation_ns: Told = lambda s: 0
    thermal_violation_ns: Told = lambda s: 0
    ecc_uncorrected: Told = lambda s: 0
    used_bytes: Told = lambda s: 10 * GIB if s >= 1 else GIB
    processes: Told = lambda s: [(OWN_PID, 9 * GIB)] if s >= 1 else []
    power_limit_mw: Told = lambda s: 400_000
    sm_clock_default_mhz: Told = lambda s: 1155
    sm_clock_max_mhz: Told = lambda s: 1410
    mig_mode: Told = lambda s: [0, 0]
    persistence_mode: Told = lambda s: 1


@dataclass
class FakeNvml:
    """Stand where the module pynvml stands.

    `refused` maps a function to the moment from which it is refused [s] and the code of its error.
    """

    gpus: list[FakeGpu]
    now: Callable[[], float]
    refused: Mapping[str, tuple[float, int]] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        """Give constants and errors of the real bindings; functions only if they are told below."""
        if name.startswith(("nvmlDevice", "nvmlSystem")) or name in ("nvmlInit", "nvmlShutdown"):
            function = {**_PLAIN, **_SEARCHING}.get(name)
            if function is None:
                raise AttributeError(name)
            return lambda *arguments: self._call(name, function, arguments)
        return getattr(pynvml, name)

    def _call(self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        since_s, code = self.refused.get(name, self.refused.get("*", (float("inf"), 0)))
        if self.now() >= since_s:
            raise pynvml.NVMLError(code)
        value = function(self, *arguments)
        if callable(value):
            value = value(self.now())
        if isinstance(value, BaseException):
            raise value
        return value


def _handle(fake: FakeNvml, uuid: str) -> FakeGpu:
    found = [gpu for gpu in fake.gpus if gpu.uuid == uuid]
    if not found:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
    return found[0]


def _violation(fake: FakeNvml, gpu: FakeGpu, policy: int) -> Any:
    names = {
        pynvml.NVML_PERF_POLICY_POWER: "power_violation_ns",
        pynvml.NVML_PERF_POLICY_THERMAL: "thermal_violation_ns",
    }
    told = getattr(gpu, names[policy])(fake.now())
    return told if isinstance(told, BaseException) else SimpleNamespace(violationTime=told)


def _memory(fake: FakeNvml, gpu: FakeGpu, version: int | None = None) -> Any:
    if version != pynvml.nvmlMemory_v2:
        return SimpleNamespace(total=80 * GIB, used=gpu.used_bytes(fake.now()) + GIB)  # with the driver's own
    return SimpleNamespace(total=80 * GIB, used=gpu.used_bytes(fake.now()))


def _processes(fake: FakeNvml, gpu: FakeGpu) -> Any:
    told = gpu.processes(fake.now())
    if isinstance(told, BaseException):
        return told
    return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in told]


_SEARCHING: dict[str, Callable[..., Any]] = {
    "nvmlInit": lambda fake: None,
    "nvmlShutdown": lambda fake: None,
    "nvmlSystemGetDriverVersion": lambda fake: "550.54.15",
    "nvmlDeviceGetCount": lambda fake: len(fake.gpus),
    "nvmlDeviceGetHandleByIndex": lambda fake, index: fake.gpus[index],
    "nvmlDeviceGetHandleByUUID": _handle,
    "nvmlDeviceGetUUID": lambda fake, gpu: gpu.uuid,
    "nvmlDeviceIsMigDeviceHandle": lambda fake, gpu: 0,
    "nvmlDeviceGetViolationStatus": _violation,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetComputeRunningProcesses": _processes,
}
_PLAIN: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetMigMode": lambda fake, gpu: gpu.mig_mode,
    "nvmlDeviceGetTotalEnergyConsumption": lambda fake, gpu: gpu.energy_mj,
    "nvmlDeviceGetPowerUsage": lambda fake, gpu: gpu.power_mw,
    "nvmlDeviceGetClockInfo": lambda fake, gpu, clock: gpu.sm_clock_mhz,
    "nvmlDeviceGetMaxClockInfo": lambda fake, gpu, clock: gpu.sm_clock_max_mhz,
    "nvmlDeviceGetDefaultApplicationsClock": lambda fake, gpu, clock: gpu.sm_clock_default_mhz,
    "nvmlDeviceGetEnforcedPowerLimit": lambda fake, gpu: gpu.power_limit_mw,
    "nvmlDeviceGetTemperatureV": lambda fake, gpu, sensor: gpu.temperature_c,
    "nvmlDeviceGetTemperature": lambda fake, gpu, sensor: gpu.temperature_c,
    "nvmlDeviceGetCurrentClocksEventReasons": lambda fake, gpu: gpu.reasons,
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda fake, gpu: gpu.reasons,
    "nvmlDeviceGetPersistenceMode": lambda fake, gpu: gpu.persistence_mode,
    "nvmlDeviceGetTotalEccErrors": lambda fake, gpu, kind, since: gpu.ecc_uncorrected,
}
FUNCTIONS = (*_SEARCHING, *_PLAIN)


class ScriptClock:
    """Give the moment of the script, which only the test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Read it."""
        return self.now_s
