"""What CUDA_VISIBLE_DEVICES means, in words. CUDA reads it; nothing here changes which GPUs a rank gets.

Read as torch reads it (`torch.cuda._parse_visible_devices`), which follows the CUDA programming guide, "CUDA
environment variables": a list of indices in CUDA's own order, or one of UUIDs or their beginnings, or one of MIG
devices, as its first entry says. The first entry that names nothing ends the list, and those before it count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bench.telemetry.nvml import NvmlGpu

_NUMBER = re.compile(r"[+-]?\d+")
_PREFIXES = ("GPU-", "MIG-")


@dataclass(frozen=True)
class _Reading:
    """Hold what a list says before any GPU is looked up."""

    named: tuple[int | str, ...] = ()
    """Indices, or beginnings of UUIDs, up to the first entry that is neither."""
    entries: tuple[str, ...] = ()
    """The entries behind `named`, as written."""
    stopped_at: str | None = None
    """First entry that names nothing; null where all do."""
    repeated: int | str | None = None
    """What is named twice, so that nothing counts; null where nothing is."""


def visible_names(value: str) -> list[int] | list[str]:
    """List what the variable names, as torch does before it looks a GPU up: indices, or beginnings of UUIDs.

    Empty where it names nothing, or one thing twice.
    """
    reading = _read(value)
    return [] if reading.repeated is not None else list(reading.named)  # type: ignore[return-value]


def explain_visible(value: str | None, gpus: Sequence[NvmlGpu], device_order: str | None = None) -> str:
    """Say which GPUs the variable leaves to this process.

    Args:
        value: CUDA_VISIBLE_DEVICES; None when it is not set.
        gpus: the GPUs of the machine as NVML lists them; empty when unknown.
        device_order: CUDA_DEVICE_ORDER; None when it is not set.
    """
    if value is None:
        return "not set: every GPU of the machine is visible"
    reading = _read(value)
    if reading.repeated is not None:
        return _rejected(value, _name(reading.repeated, gpus) or f"{reading.repeated!r}")
    if not reading.named:
        return f"{value!r} hides every GPU"
    named: list[str] = []
    stopped_at = reading.stopped_at
    for entry, selector in zip(reading.entries, reading.named, strict=True):
        name = _name(selector, gpus)
        if name is None:
            stopped_at = entry
            break
        if name in named:
            return _rejected(value, name)
        named.append(name)
    ignored = (
        "" if stopped_at is None else f"{stopped_at!r} names no GPU here, and CUDA ignores it and all that follows"
    )
    if not named:
        return f"{value!r} hides every GPU: {ignored}"
    said = [f"{value!r}: {_left(named)}", *([ignored] if ignored else [])]
    counted = list(zip(reading.entries, reading.named, strict=True))[: len(named)]
    said += [f"{entry!r} is read as {number}" for entry, number in counted if entry != str(number)]
    if isinstance(counted[0][1], int) and device_order != "PCI_BUS_ID" and len(gpus) > 1:
        said.append("numbers follow CUDA's order, fastest first, which may differ from the order below")
    if sum(str(selector).startswith("MIG-") for _, selector in counted) > 1:
        said.append("a process sees only one MIG device, unless the driver is very new")
    return "; ".join(said)


def hides_every_gpu(value: str | None) -> bool:
    """Tell whether the variable asks for no GPU at all: it is empty, begins with -1 or a non-name, or repeats one."""
    return value is not None and not visible_names(value)


def _read(value: str) -> _Reading:
    """Read the list; how it begins decides what its entries are. UUIDs are taken as written, spaces included."""
    prefix = next((prefix for prefix in _PREFIXES if value.startswith(prefix)), None)
    named: list[int | str] = []
    entries: list[str] = []
    for text in value.split(","):
        entry = text if prefix else text.strip()
        selector = (entry if entry.startswith(prefix) else None) if prefix else _number(entry)
        if selector is None:
            return _Reading(tuple(named), tuple(entries), entry)
        if selector in named:
            return _Reading(tuple(named), tuple(entries), repeated=selector)
        named.append(selector)
        entries.append(entry)
    return _Reading(tuple(named), tuple(entries))


def _number(entry: str) -> int | None:
    """Read the number that an entry begins with, as C's strtoul does: 1gpu2 is 1, 0x1 is 0; None for no index."""
    found = _NUMBER.match(entry)
    return int(found[0]) if found and int(found[0]) >= 0 else None


def _name(selector: int | str, gpus: Sequence[NvmlGpu]) -> str | None:
    """Name what one entry selects; None when it selects nothing."""
    if isinstance(selector, int):
        return f"GPU {selector}" if not gpus or selector < len(gpus) else None
    if selector.startswith("GPU-"):
        if all(gpu.uuid is None for gpu in gpus):
            return selector
        found = [gpu for gpu in gpus if gpu.uuid is not None and gpu.uuid.startswith(selector)]
        return f"GPU {found[0].index} ({found[0].name or 'unnamed'})" if len(found) == 1 else None
    known = [(gpu, mig) for gpu in gpus for mig in gpu.mig_devices if mig.uuid is not None]
    found_mig = [(gpu, mig) for gpu, mig in known if mig.uuid == selector]
    if found_mig:
        gpu, mig = found_mig[0]
        return f"MIG device {mig.name or selector} of GPU {gpu.index}"
    # Older drivers name a MIG device by its GPU and two numbers, which NVML does not list.
    return selector if not known or selector.startswith("MIG-GPU-") else None


def _rejected(value: str, name: str) -> str:
    return f"{value!r} names {name} twice, which CUDA rejects: no GPU is visible"


def _left(named: Sequence[str]) -> str:
    listed = named[0] if len(named) == 1 else ", ".join(named[:-1]) + " and " + named[-1]
    numbers = "cuda:0" if len(named) == 1 else f"cuda:0 to cuda:{len(named) - 1}"
    return f"{listed} as {numbers}"
