"""Watch GPUs through NVML while a launch runs, from the driver's process: nothing runs in the ranks. No torch.

A thread of its own polls about ten times a second. Each call has the time limit of `bench.telemetry.nvml`; while one
hangs nothing more is asked, the samples so far are kept, and nobody waits longer than that limit. When the polling
ends, a last sample closes what is counted: the timed part may have ended after the one before it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.errors import EnvironmentFault
from bench.telemetry.nvml import CALL_LIMIT_S, FIRST_LIMIT_S, NvmlSession, hangs, problem_of, say_fault
from bench.telemetry.samples import GpuSample, GpuTrack
from bench.telemetry.time_limit import process_limit

PERIOD_S = 0.1
"""Time between samples [s]: the driver's own counters step about as often."""
SELDOM = 2
"""Memory, processes and ECC errors are asked with one sample in so many: these calls take locks of the driver."""


@dataclass
class _Watched:
    """Hold one GPU's handles and its samples."""

    uuid: str
    device: Any
    """Handle of the device that the rank sees: the GPU, or a MIG device."""
    board: Any
    """Handle of the whole GPU, for what a MIG device shares with its neighbours: clocks, temperature, errors."""
    is_whole: bool
    """Whether the rank has the whole GPU, so that its energy is the rank's."""
    track: GpuTrack
    samples: list[GpuSample] = field(default_factory=list)


class GpuWatch:
    """Ask NVML for samples of some GPUs, now and then or in the background.

    Args:
        nvml: The bindings (the module pynvml, or what stands for it in a test).
        clock: The machine's monotonic clock [s].
        period_s: Time between samples in the background [s].
        call_limit_s: Limit of one call [s].
        first_limit_s: Limit of a call that may bring GPUs up [s].
    """

    def __init__(
        self,
        nvml: Any,
        clock: Callable[[], float] = time.monotonic,
        period_s: float = PERIOD_S,
        call_limit_s: float = CALL_LIMIT_S,
        first_limit_s: float = FIRST_LIMIT_S,
    ) -> None:
        self._nvml = nvml
        self._clock = clock
        self._period_s = period_s
        self._call_limit_s = call_limit_s
        self._first_limit_s = first_limit_s
        self._session: NvmlSession | None = None
        self._poller: threading.Thread | None = None
        self._stop = threading.Event()
        self._closing_until_s = float("inf")
        self._watched: list[_Watched] = []
        self.driver_version: str | None = None
        self.problem: str | None = hangs.problem()
        """Why NVML, or a GPU, could not be asked, in plain words; None while all is well."""

    def choose(self, uuids: Sequence[str]) -> None:
        """Watch these GPUs from now on, with no samples yet; every GPU of the machine where `uuids` is empty."""
        self._watched = []
        self._guarded(lambda: self._open(uuids))

    def look(self) -> Mapping[str, GpuSample]:
        """Take a full sample of each GPU now; a GPU without any figure is left out."""
        found: dict[str, GpuSample] = {}

        def take() -> None:
            for gpu in self._watched:
                sample = self._sample(gpu, is_full=True)
                if not sample.is_empty:
                    found[gpu.uuid] = sample

        self._guarded(take)
        return found

    def poll_once(self, is_full: bool = True) -> None:
        """Add one sample of each GPU; a GPU without any figure adds none."""

        def take() -> None:
            for gpu in self._watched:
                sample = self._sample(gpu, is_full)
                if not (sample.is_empty or self._stop.is_set()):
                    gpu.samples.append(sample)
                    hangs.forget()

        self._guarded(take)

    def start(self) -> None:
        """Poll in the background until `stop`; without a thread for it, `problem` says so."""
        poller = threading.Thread(target=self._poll, name="telemetry", daemon=True)
        try:
            poller.start()
        except RuntimeError:
            self.problem = f"No thread can be started: {process_limit()}"
        else:
            self._poller = poller

    def stop(self) -> list[GpuTrack]:
        """End the polling, close what is counted, and give the samples; waits for a call or two at most."""
        self._stop.set()
        if self._poller is not None:
            self._poller.join()  # after the call under way, which has its limit
            self._poller = None
        self._stop.clear()
        self._closing_until_s = self._clock() + self._call_limit_s
        self._guarded(self._close_counters)
        self._closing_until_s = float("inf")
        return self.tracks()

    def close(self) -> None:
        """Let the thread end; the next question would begin anew."""
        if self._session is not None:
            self._session.close()
        self._session = None

    def tracks(self) -> list[GpuTrack]:
        """Give the samples so far."""
        return [replace(gpu.track, samples=tuple(gpu.samples)) for gpu in self._watched]

    def _close_counters(self) -> None:
        """Read each GPU's counters once more.

        All that was timed lies before this sample, and less than a second before it unless the driver is slow; without
        it the end of a timed part that a rank ends with would have a sample on one side only, and no energy.
        """
        for gpu in self._watched:
            if gpu.samples and not (sample := self._sample_of_counters(gpu, is_full=True)).is_empty:
                gpu.samples.append(sample)

    def _poll(self) -> None:
        number = 0
        due_s = self._clock()
        while not self._stop.is_set():
            self.poll_once(is_full=number % SELDOM == 0)  # asks nothing while the library hangs
            number += 1
            # A library slower than the period is asked again at once, and not more often to catch up.
            due_s = max(due_s + self._period_s, self._clock())
            self._stop.wait(due_s - self._clock())

    def _guarded(self, questions: Callable[[], None]) -> None:
        """Ask NVML, catch whatever it raises, and keep the reason."""
        try:
            self.problem = problem_of(self._nvml, questions) or self.problem
        except EnvironmentFault as error:
            self.problem = str(error)  # no thread to ask in: the launch may do without what it would tell

    def _begin_session(self) -> None:
        """Start NVML, once; after a failure the next launch tries again."""
        if self._session is not None:
            return
        limits = self._call_limit_s, self._first_limit_s
        session = NvmlSession(self._nvml, "nvml-watch", *limits, self._is_over, self._note_refusal)
        try:
            session.begin()
        except BaseException:
            session.close()
            raise
        self._session = session
        self.driver_version = self._ask("nvmlSystemGetDriverVersion")

    def _is_over(self) -> bool:
        return self._stop.is_set() or self._clock() > self._closing_until_s

    def _open(self, uuids: Sequence[str]) -> None:
        self.problem = None
        self._begin_session()
        if uuids:
            handles = [(uuid, self._handle_of(uuid)) for uuid in uuids]
        else:
            count = self._ask("nvmlDeviceGetCount") or 0
            found = [self._ask("nvmlDeviceGetHandleByIndex", index) for index in range(count)]
            handles = [(self._ask("nvmlDeviceGetUUID", handle), handle) for handle in found if handle is not None]
        for uuid, handle in handles:
            if handle is None or uuid is None:
                self.problem = f"the NVIDIA driver does not know {uuid}"
            else:
                self._watched.append(self._begin(uuid, handle))

    def _handle_of(self, uuid: str) -> Any:
        """Find a device by UUID; torch writes GPU- before that of a MIG device too."""
        names = dict.fromkeys((uuid, f"MIG-{uuid.removeprefix('GPU-')}"))
        return next((h for n in names if (h := self._ask("nvmlDeviceGetHandleByUUID", n)) is not None), None)

    def _begin(self, uuid: str, device: Any) -> _Watched:
        nvml = self._nvml
        board = None
        if self._ask("nvmlDeviceIsMigDeviceHandle", device):
            board = self._ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", device)
        mode = self._ask("nvmlDeviceGetMigMode", device)
        is_whole = board is None and (mode is None or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE)
        board = device if board is None else board
        track = GpuTrack(
            uuid,
            power_limit_mw=self._ask("nvmlDeviceGetEnforcedPowerLimit", board) if is_whole else None,
            sm_clock_default_mhz=self._ask("nvmlDeviceGetDefaultApplicationsClock", board, nvml.NVML_CLOCK_SM),
            sm_clock_max_mhz=self._ask("nvmlDeviceGetMaxClockInfo", board, nvml.NVML_CLOCK_SM),
            persistence_mode=None if self._session is None else self._session.persistence_mode(board),
        )
        # A GPU that is cut up, asked in place of the slice: what it tells of memory and energy is not the rank's.
        is_slice = board is not device
        return _Watched(uuid, device if is_whole or is_slice else None, board, is_whole, track)

    def _sample(self, gpu: _Watched, is_full: bool) -> GpuSample:
        nvml, board = self._nvml, gpu.board
        session = self._session if is_full and gpu.device is not None else None
        return replace(
            self._sample_of_counters(gpu, is_full),
            power_mw=self._ask("nvmlDeviceGetPowerUsage", board) if gpu.is_whole else None,
            sm_clock_mhz=self._ask("nvmlDeviceGetClockInfo", board, nvml.NVML_CLOCK_SM),
            temperature_c=self._temperature(board),
            reasons=self._reasons(board),
            used_bytes=int(memory.used) if session and (memory := session.memory(gpu.device)) else None,
            processes=session.processes(gpu.device) if session else None,
        )

    def _sample_of_counters(self, gpu: _Watched, is_full: bool) -> GpuSample:
        """Take only what counts up, and so tells of the time before the sample too."""
        nvml, board = self._nvml, gpu.board
        begin_s = self._clock()
        energy = self._ask("nvmlDeviceGetTotalEnergyConsumption", board) if gpu.is_whole else None
        return GpuSample(
            # Energy is what is interpolated in time, so the sample stands where it was read.
            monotonic_s=(begin_s + self._clock()) / 2,
            energy_mj=energy,
            power_violation_ns=self._violation(board, nvml.NVML_PERF_POLICY_POWER),
            thermal_violation_ns=self._violation(board, nvml.NVML_PERF_POLICY_THERMAL),
            ecc_uncorrected=self._ecc_errors(board) if is_full else None,
        )

    def _temperature(self, board: Any) -> Any:
        nvml = self._nvml
        told = self._ask("nvmlDeviceGetTemperatureV", board, nvml.NVML_TEMPERATURE_GPU)
        return self._ask("nvmlDeviceGetTemperature", board, nvml.NVML_TEMPERATURE_GPU) if told is None else told

    def _reasons(self, board: Any) -> Any:
        told = self._ask("nvmlDeviceGetCurrentClocksEventReasons", board)
        return self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", board) if told is None else told

    def _violation(self, board: Any, policy: int) -> int | None:
        """Read a counter that every driver numbers alike; those of hardware slowdowns moved between versions."""
        status = self._ask("nvmlDeviceGetViolationStatus", board, policy)
        return None if status is None else int(status.violationTime)

    def _ecc_errors(self, board: Any) -> int | None:
        nvml = self._nvml
        kind, since = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        count: int | None = self._ask("nvmlDeviceGetTotalEccErrors", board, kind, since)
        return count

    def _ask(self, name: str, *arguments: Any) -> Any:
        return None if self._session is None else self._session.ask(name, *arguments)

    def _note_refusal(self, error: Exception) -> None:
        if type(error).__name__ == "NVMLError_GpuIsLost":
            self.problem = say_fault(error)
