"""Measure the ceilings of devices, as JSON on stdout; a program of its own, so that the command stays free of torch.

python -m bench.rank.ceilings_probe cpu [THREADS]
python -m bench.rank.ceilings_probe cuda
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import psutil
import torch

from bench.loop.switches import set_switches
from bench.machine.calibration import DeviceKey
from bench.measure.ceilings import MATRIX_SIZES, Ceiling, copy_ceiling, matmul_ceiling
from bench.measure.cpu import CpuDevice
from bench.measure.cuda import CudaDevice
from bench.measure.device import Device
from bench.measure.host import usable_cores
from bench.measure.peaks import MatmulPrecision

_MODE_S = {"cpu": 1.2, "cuda": 4.0}
"""Time for all sizes of one precision [s]: five seconds of a CPU, half a minute of a GPU, its start included."""
_COPY_S = {"cpu": 0.5, "cuda": 1.0}
_COPY_BYTES = {"cpu": 256 * 1024**2, "cuda": 1024**3}
_DTYPES: dict[MatmulPrecision, torch.dtype] = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


def measure(kind: str, threads: int | None) -> Iterator[dict[str, Any]]:
    """Give the ceilings of every device of a kind."""
    if kind == "cpu":
        torch.set_num_threads(threads or usable_cores())
        cpu = CpuDevice()
        yield ceilings(cpu, DeviceKey.cpu(cpu.properties().name, torch.get_num_threads(), str(torch.__version__)))
        return
    for index in range(torch.cuda.device_count()):
        gpu = CudaDevice(index)
        properties = gpu.properties()
        if properties.uuid is not None:  # without it another GPU of the same name would be taken for this one
            yield ceilings(gpu, DeviceKey.gpu(properties.name, properties.uuid, str(torch.__version__)))
            torch.cuda.empty_cache()


def ceilings(device: Device, key: DeviceKey) -> dict[str, Any]:
    """Measure one device: matrix products in every precision it has, copies within and to its memory."""
    kind = device.kind
    free_bytes = psutil.virtual_memory().available
    if kind == "cuda":
        free_bytes = min(free_bytes, torch.cuda.mem_get_info(device.torch_device)[0])
    num_bytes = min(_COPY_BYTES[kind], free_bytes // 8)
    matmul: dict[str, dict[str, Any] | None] = {}
    for precision in _precisions(kind):
        set_switches(precision)
        matmul[precision] = _or_none(matmul_ceiling(device, _DTYPES[precision], MATRIX_SIZES[kind], _MODE_S[kind]))
    host = copy_ceiling(device, num_bytes, _COPY_S[kind], from_host=True) if kind == "cuda" else None
    return {
        "key": asdict(key),
        "matmul": matmul,
        "copy": _or_none(copy_ceiling(device, num_bytes, _COPY_S[kind])),
        "host_to_device": _or_none(host),
    }


def _precisions(kind: str) -> list[MatmulPrecision]:
    """List the precisions that the device computes in itself; what is only emulated has no ceiling."""
    if kind == "cpu":
        return ["fp32", "bf16", "fp16"]
    has: dict[MatmulPrecision, bool] = {
        "fp32": True,
        "tf32": torch.cuda.get_device_capability() >= (8, 0),
        "bf16": torch.cuda.is_bf16_supported(including_emulation=False),
        "fp16": True,
    }
    return [precision for precision, is_there in has.items() if is_there]


def _or_none(ceiling: Ceiling | None) -> dict[str, Any] | None:
    return None if ceiling is None else asdict(ceiling)


def main(kind: str, threads: int | None) -> None:
    """Measure and write; an error ends the process at once, with what it says as the last line."""
    try:
        json.dump(list(measure(kind, threads)), sys.stdout)
    except Exception as error:
        traceback.print_exc()
        said = str(error).strip().splitlines() or ["no message"]
        sys.stderr.write(f"{type(error).__name__}: {said[0]}\n")
        sys.stderr.flush()
        # After an error of the GPU that stays, freeing page-locked memory would end it in words of C++.
        os._exit(1)


if __name__ == "__main__":
    asked = sys.argv[1:]
    main(asked[0], int(asked[1]) if len(asked) > 1 else None)
