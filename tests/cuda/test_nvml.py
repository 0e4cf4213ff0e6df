"""NVML of the stand-in, read through the real bindings: what the ledger and a test's script tell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bench.standin import GPUS, gpu_uuid
from bench.standin.gpus import NAME_START
from tests.cuda.on_standin import GIB, MIB, run

pytestmark = pytest.mark.cuda


def _read(rewrite: str | None = None, path: str = "") -> dict[str, Any]:
    import pynvml as nvml

    def ask(function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except nvml.NVMLError as error:
            return f"error {error.value}"

    nvml.nvmlInit()
    if rewrite is not None:
        nvml.nvmlDeviceGetTemperature(nvml.nvmlDeviceGetHandleByIndex(0), 0)
        Path(path).write_text(rewrite, encoding="utf-8")
    told = {}
    for index in range(nvml.nvmlDeviceGetCount()):
        gpu = nvml.nvmlDeviceGetHandleByIndex(index)
        memory = nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2)
        told[str(index)] = {
            "name": nvml.nvmlDeviceGetName(gpu),
            "uuid": nvml.nvmlDeviceGetUUID(gpu),
            "used": memory.used,
            "unused": memory.total - memory.reserved - memory.used,
            "processes": [
                [process.pid, process.usedGpuMemory] for process in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)
            ],
            "power_mw": ask(nvml.nvmlDeviceGetPowerUsage, gpu),
            "energy_mj": ask(nvml.nvmlDeviceGetTotalEnergyConsumption, gpu),
            "celsius": ask(nvml.nvmlDeviceGetTemperature, gpu, nvml.NVML_TEMPERATURE_GPU),
            "celsius_new": ask(nvml.nvmlDeviceGetTemperatureV, gpu, nvml.NVML_TEMPERATURE_GPU),
            "clock_mhz": ask(nvml.nvmlDeviceGetClockInfo, gpu, nvml.NVML_CLOCK_SM),
            "reasons": ask(nvml.nvmlDeviceGetCurrentClocksEventReasons, gpu),
            "violation_ns": nvml.nvmlDeviceGetViolationStatus(gpu, nvml.NVML_PERF_POLICY_THERMAL).violationTime,
            "ecc": ask(nvml.nvmlDeviceGetTotalEccErrors, gpu, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, 0),
        }
    return told


def test_every_gpu_of_the_machine_is_told_whatever_is_visible() -> None:
    told = run(_read, count=2, variables={"CUDA_VISIBLE_DEVICES": "1"})
    assert [gpu["uuid"] for gpu in told.values()] == [gpu_uuid(0), gpu_uuid(1)]
    assert {gpu["name"] for gpu in told.values()} == {f"{NAME_START} {GPUS['a100-80gb'].name}"}
    assert [gpu["used"] for gpu in told.values()] == [0, 0]


SCRIPT = """
# GPU, figure, value
*  temperature_c  71
*  power_mw  300000
1  temperature_c  88
1  throttle_reasons  0x40
1  violation_1_ns  5000
1  sm_clock_mhz  900
1  ecc_uncorrected  3
1  energy_mj  123456789
1  process  4711  1073741824
0  refuse  nvmlDeviceGetPowerUsage  4
"""


def test_a_script_tells_sensors_processes_and_refusals(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(SCRIPT, encoding="utf-8")
    told = run(_read, count=2, nvml_script=script)
    assert [told[gpu]["celsius"] for gpu in "01"] == [71, 88]
    assert told["1"]["celsius_new"] == 88
    assert [told[gpu]["power_mw"] for gpu in "01"] == ["error 4", 300000]
    assert [told[gpu]["reasons"] for gpu in "01"] == [0, 0x40]
    assert [told[gpu]["violation_ns"] for gpu in "01"] == [0, 5000]
    assert [told[gpu]["clock_mhz"] for gpu in "01"] == [1410, 900]
    assert [told[gpu]["ecc"] for gpu in "01"] == [0, 3]
    assert told["1"]["energy_mj"] == 123456789
    assert [told[gpu]["processes"] for gpu in "01"] == [[], [[4711, GIB]]]
    assert [told[gpu]["used"] for gpu in "01"] == [0, GIB]


def test_the_script_is_read_again_at_each_question(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("* temperature_c 30\n", encoding="utf-8")
    told = run(_read, "* temperature_c 31\n", str(script), nvml_script=script)
    assert told["0"]["celsius"] == 31


def _use_and_read() -> dict[str, Any]:
    import torch

    kept = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    return {**_read(), "pid": os.getpid(), "reserved": torch.cuda.memory_reserved(), "kept": kept.nbytes}


def test_memory_and_process_of_a_rank_are_told() -> None:
    told = run(_use_and_read, count=2)
    used = told["reserved"] + 450 * MIB
    assert told["0"]["processes"] == [[told["pid"], used]]
    assert told["0"]["used"] == used
    assert told["1"]["used"] == 0
