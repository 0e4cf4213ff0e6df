"""What differs between this machine and a reference, and what of it forbids to compare."""

from __future__ import annotations

from bench.report.people import clean
from bench.report.points import Row

_HARDWARE = {"gpu_name": "GPU", "cpu_model": "CPU", "cpu_count": "CPU cores"}
_SOFTWARE = {
    "torch_version": "torch",
    "cuda_version": "CUDA",
    "cudnn_version": "cuDNN",
    "nccl_version": "NCCL",
    "driver_version": "driver",
    "python_version": "Python",
    "bench_version": "bench",
    "threads_per_rank": "threads per rank",
    "measurement_version": "measuring method",
}


def is_like_hardware(one: Row, other: Row) -> bool:
    """Tell whether two rows come from devices of the same model: the GPU, or the CPU with as many cores."""
    if one.get("device") != other.get("device"):
        return False
    names = ("cpu_model", "cpu_count") if one.get("device") == "cpu" else ("gpu_name",)
    return all(one.get(name) is not None and one.get(name) == other.get(name) for name in names)


def facts_that_differ(here: Row, there: Row) -> list[str]:
    """Say which facts of machine and software differ, hardware first: "torch 2.12.0 here, 2.13.0 there"."""
    names = {"device": "device"} | _HARDWARE | _SOFTWARE
    return [
        f"{word} {_value(here.get(name))} here, {_value(there.get(name))} there"
        for name, word in names.items()
        if here.get(name) != there.get(name) and {here.get(name), there.get(name)} != {None}
    ] + (["text of the corpus"] if here.get("corpus_hash") != there.get("corpus_hash") else [])


def why_not_the_same_work(here: Row, there: Row, force: bool) -> list[str]:
    """Say why one configuration may not be compared across machines.

    Another text is no reason where rows are packed: every row then holds the same number of tokens.
    """
    reasons = []
    versions = (here.get("measurement_version"), there.get("measurement_version"))
    if versions[0] != versions[1] and not force:
        reasons.append(
            f"measured by version {versions[0]} of the method here and {versions[1]} there (measurement_version), and "
            f"what changed in between is in the CHANGELOG; --force compares all the same"
        )
    sizes = (here.get("parameters_unique"), there.get("parameters_unique"))
    if None not in sizes and sizes[0] != sizes[1]:
        reasons.append(f"model {here.get('model')} has {sizes[0]:,} parameters here and {sizes[1]:,} there")
    hashes = (here.get("corpus_hash"), there.get("corpus_hash"))
    if here.get("rows") != "packed" and None not in hashes and hashes[0] != hashes[1]:
        reasons.append(f"{here.get('rows')} rows of another text, so of other lengths")
    return reasons


def _value(value: object) -> str:
    return "none" if value is None else clean(str(value))
