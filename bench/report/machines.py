"""Tell whether two rows come from like machines and do the same work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.record.variables import decisive_of_row
from bench.report.launch_rows import Row, column_of
from bench.sweep.names import clean

SOFTWARE = ("torch_version", "cuda_version", "cudnn_version", "nccl_version", "driver_version", "measurement_version")
_GPU, _CPU = ("device", "gpu_name"), ("device", "cpu_model", "cpu_count")
_GPU_KEY, _CPU_KEY = _GPU + SOFTWARE, _CPU + SOFTWARE

FACTS = {
    "device": "device",
    "gpu_name": "GPU",
    "cpu_model": "CPU",
    "cpu_count": "CPU cores",
    "torch_version": "torch",
    "cuda_version": "CUDA",
    "cudnn_version": "cuDNN",
    "nccl_version": "NCCL",
    "driver_version": "driver",
    "python_version": "Python",
    "bench_version": "bench",
    "threads_per_rank": "threads per rank",
    "measurement_version": "measurement version",
}
"""Facts of machine and software, hardware first, and what they are called."""

WORK = ("model", "parameters_unique", "seq_len", "data_source", "corpus_hash", "unit", "user_code_hash")
"""What must be equal for tokens of two rows to be the same work, the global batch aside."""


def machine_key(row: Row) -> tuple[Any, ...]:
    """Give what makes two machines unlike for a measurement: the device's model and the software that drives it.

    A launch that failed early may not know; its missing values stay None.
    """
    names = _CPU_KEY if row.get("device") == "cpu" else _GPU_KEY
    return (*(row.get(name) for name in names), _decisive(row))


def machine_keys(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Give the `machine_key` of every row, by columns; on CPUs with the threads that torch used.

    One trial measured on other numbers of threads is another measurement. `machine_key` leaves them out, since they
    rightly differ with the number of ranks.
    """
    of_rows = column_of(rows, "device")
    devices = set(of_rows)
    decisive = [*map(decisive_of_row, column_of(rows, "environment_json"), of_rows)]
    cpu_keys = zip(*(column_of(rows, name) for name in (*_CPU_KEY, "threads_per_rank")), decisive, strict=True)
    if devices == {"cpu"}:
        return list(cpu_keys)
    gpu_keys = zip(*(column_of(rows, name) for name in _GPU_KEY), decisive, strict=True)
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
    return [
        *differences(one, other, (*hardware, *SOFTWARE)),
        *_unknown_method(one, other),
        *_variable_differences(one, other),
        *thread_differences(one, other),
    ]


def _decisive(row: Row) -> tuple[tuple[str, str], ...]:
    return decisive_of_row(row.get("environment_json"), row.get("device"))


def _variable_differences(one: Row, other: Row) -> list[str]:
    """Say which decisive environment variables differ, as "CUDA_LAUNCH_BLOCKING 1 against not set"."""
    if None in (one.get("environment_json"), other.get("environment_json")):
        return []
    here, there = dict(_decisive(one)), dict(_decisive(other))
    return [
        f"{name} {clean(here.get(name, 'not set'))} against {clean(there.get(name, 'not set'))}"
        for name in dict.fromkeys((*here, *there))
        if here.get(name) != there.get(name)
    ]


def thread_differences(one: Row, other: Row) -> list[str]:
    """Say that two launches asked for the same threads and CPUs gave them unlike ones; empty where that is not so.

    Threads that were asked for, or that follow from the number of ranks, are an axis like any other.
    """
    asked_alike = all(one.get(name) == other.get(name) for name in ("device", "cpu_threads_per_rank", "world_size"))
    return differences(one, other, ("threads_per_rank",)) if asked_alike and one.get("device") == "cpu" else []


def why_mixed_methods(rows: Sequence[Row]) -> str | None:
    """Say that results which are ok were measured by several versions of the method; null where it is one."""
    outcomes, versions = column_of(rows, "outcome"), column_of(rows, "measurement_version")
    found = {version for outcome, version in zip(outcomes, versions, strict=True) if outcome == "ok"}
    if len(found) < 2:
        return None
    known = [str(version) for version in sorted(found - {None})] + ["unknown"] * (None in found)
    choice = next(iter(sorted(found - {None}, reverse=True)))
    return (
        f"the results were measured by different measurement versions ({', '.join(known)}), whose numbers are not "
        f"comparable. Choose one: --where 'measurement_version == {choice}'"
    )


def _unknown_method(one: Row, other: Row) -> list[str]:
    """Take an unknown version of the method for another one; a launch that failed may know less than it should."""
    versions = [row.get("measurement_version") for row in (one, other)]
    if versions.count(None) != 1 or any(row.get("outcome") != "ok" for row in (one, other)):
        return []
    words = ["unknown" if version is None else clean(str(version)) for version in versions]
    return [f"measurement_version {words[0]} against {words[1]}"]


def why_not_comparable(one: Row, other: Row) -> list[str]:
    """List why the speeds of two rows should not be compared: unlike machines, other work, or another global batch."""
    reasons = []
    if machine := machine_differences(one, other):
        reasons.append("different machines: " + ", ".join(machine))
    if batch := differences(one, other, ("global_batch_size",)):
        reasons.append("different global batches: " + ", ".join(batch))
    if work := differences(one, other, WORK):
        reasons.append("different work: " + ", ".join(work))
    return reasons


def is_like_hardware(one: Row, other: Row) -> bool:
    """Tell whether two rows come from devices of the same model: the GPU, or the CPU with as many cores."""
    if one.get("device") != other.get("device"):
        return False
    hardware = _CPU if one.get("device") == "cpu" else _GPU
    return all(one.get(name) is not None and one.get(name) == other.get(name) for name in hardware[1:])


def facts_that_differ(here: Row, there: Row) -> list[str]:
    """Say which facts of machine and software differ, hardware first: "torch 2.12.0 here, 2.13.0 there"."""
    return [
        f"{word} {_word(here.get(name))} here, {_word(there.get(name))} there"
        for name, word in FACTS.items()
        if here.get(name) != there.get(name) and {here.get(name), there.get(name)} != {None}
    ] + (["corpus text"] if here.get("corpus_hash") != there.get("corpus_hash") else [])


def why_not_the_same_work(here: Row, there: Row, force: bool) -> list[str]:
    """Say why one configuration may not be compared across machines.

    Another text is no reason where rows are packed: every row then holds the same number of tokens.
    """
    reasons = []
    versions = (here.get("measurement_version"), there.get("measurement_version"))
    if versions[0] != versions[1] and not force:
        reasons.append(
            f"measurement_version is {versions[0]} here, {versions[1]} there, and the CHANGELOG says what changed in "
            f"between; --force compares anyway"
        )
    sizes = (here.get("parameters_unique"), there.get("parameters_unique"))
    if None not in sizes and sizes[0] != sizes[1]:
        reasons.append(f"model {here.get('model')} has {sizes[0]:,} parameters here and {sizes[1]:,} there")
    hashes = (here.get("corpus_hash"), there.get("corpus_hash"))
    if here.get("rows") != "packed" and None not in hashes and hashes[0] != hashes[1]:
        reasons.append(f"{here.get('rows')} rows of a different text, so of different lengths")
    return reasons


def _word(value: object) -> str:
    return "none" if value is None else clean(str(value))
