"""GPU memory of an ended launch is back, or the sweep stops. NVML is made up."""

from __future__ import annotations

import pytest

from bench.errors import EnvironmentFault
from bench.launch.gpu_release import wait_for_release
from bench.telemetry.nvml import NvmlGpu, NvmlProcess, NvmlReport


def report(*pids: int) -> NvmlReport:
    return NvmlReport(gpus=(NvmlGpu(0, processes=tuple(NvmlProcess(pid, 1) for pid in pids)), NvmlGpu(1)))


def test_memory_that_comes_back_late_is_waited_for() -> None:
    """Other processes on the GPU are not ours to wait for."""
    answers = iter([report(7, 9), report(7, 9), report(9)])
    waits: list[float] = []
    wait_for_release([7], lambda: next(answers), waits.append)
    assert waits == [0.5, 0.5]


def test_memory_that_stays_stops_the_sweep_and_names_process_and_gpu() -> None:
    """After ten seconds."""
    waits: list[float] = []
    with pytest.raises(EnvironmentFault, match="process 7 on GPU 0"):
        wait_for_release([7], lambda: report(7, 9), waits.append)
    assert 10 <= sum(waits) < 11


def test_machine_without_nvml_is_not_waited_for() -> None:
    """What is not told cannot be waited for."""
    wait_for_release([7], lambda: NvmlReport(problem="none"), lambda seconds: pytest.fail("it waited"))


def test_signal_ends_the_wait_for_memory() -> None:
    """No further launch depends on it; the process that holds it is not waited for."""
    waits: list[float] = []
    wait_for_release([7], lambda: report(7), waits.append, is_interrupted=lambda: len(waits) == 2)
    assert len(waits) == 2
