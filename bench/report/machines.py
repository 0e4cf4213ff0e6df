"""Tell whether two rows come from like machines and do the same work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.report.launch_rows import Row, column_of
from bench.report.people import clean

SOFTWARE = ("torch_version", "cuda_version", "cudnn_version", "nccl_version", "driver_version", "measurement_version")
_GPU, _CPU = ("device", "gpu_name"), ("device", "cpu_model", "cpu_count")
_GPU_KEY, _CPU_KEY = _GPU + SOFTWARE, _CPU + SOFTWARE

WORK = ("model", "parameters_unique", "seq_len", "data_source", "corpus_hash")
"""What must be equal for tokens of two rows to be the same work, the global batch aside."""


def machine_key(row: Row) -> tuple[Any, ...]:
    """Give what makes two machines unlike for a measurement: the device's model and the software that drives it.

    A launch that failed early may not know; its missing values stay None.
    """
    return tuple(row.get(name) for name in (_CPU_KEY if row.get("device") == "cpu" else _GPU_KEY))


def machine_keys(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Give the `machine_key` of every row, by columns."""
    devices = set(column_of(rows, "device"))
    cpu_keys = zip(*(column_of(rows, name) for name in _CPU_KEY), strict=True)
    if devices == {"cpu"}:
        return list(cpu_keys)
    gpu_keys = zip(*(column_of(rows, name) for name in _GPU_KEY), strict=True)
    return [cpu if cpu[0] == "cpu" else gpu for cpu, gpu in zip(cpu_keys, gpu_keys, strict=True)]


def differences(one: Row, other: Row, names: Sequence[str]) -> list[str]:
    """Say which columns differ, as "torch_version 2.12.0 against 2.13.0"; what either does not know cannot differ."""
    return [
        f"{name} {clean(str(one[name]))} against {clean(str(other[name]))}"
        for name in names
        if one.get(name) is not None and other.get(name) is not None and one[name] != other[name]
    ]


def machine_differences(one: Row, other: Row) -> list[str]:
    """Say how the machines of two rows differ; empty for like machines."""
    if one.get("device") != other.get("device"):
        return differences(one, other, ("device",))
    hardware = _CPU if one.get("device") == "cpu" else _GPU
    return differences(one, other, (*hardware, *SOFTWARE))


def why_not_comparable(one: Row, other: Row) -> list[str]:
    """List why the speeds of two rows should not be compared: unlike machines, other work, or another global batch."""
    reasons = []
    if machine := machine_differences(one, other):
        reasons.append("unlike machines: " + ", ".join(machine))
    if batch := differences(one, other, ("global_batch_size",)):
        reasons.append("unequal global batches: " + ", ".join(batch))
    if work := differences(one, other, WORK):
        reasons.append("other work: " + ", ".join(work))
    return reasons
