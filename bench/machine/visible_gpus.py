"""What CUDA_VISIBLE_DEVICES means, in words. CUDA reads it; nothing here changes which GPUs a rank gets.

Rules from the CUDA programming guide, "CUDA environment variables": entries are indices in CUDA's own order, UUIDs or
the beginning of one, or MIG devices; the first entry that names nothing ends the list, and those before it count.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.telemetry.nvml import NvmlGpu


def explain_visible(value: str | None, gpus: Sequence[NvmlGpu], device_order: str | None = None) -> str:
    """Say which GPUs the variable leaves to this process.

    Args:
        value: CUDA_VISIBLE_DEVICES; None when it is not set.
        gpus: the GPUs of the machine as NVML lists them; empty when unknown.
        device_order: CUDA_DEVICE_ORDER; None when it is not set.
    """
    if value is None:
        return "not set: every GPU of the machine is visible"
    entries = [entry.strip() for entry in value.split(",")]
    if hides_every_gpu(value):
        return f"{value!r} hides every GPU"
    named: list[str] = []
    for entry in entries:
        name = _name(entry, gpus)
        if name is None:
            rest = f"{entry!r} names no GPU here, and CUDA ignores it and all that follows"
            return f"{value!r}: {_left(named)}; {rest}" if named else f"{value!r} hides every GPU: {rest}"
        if name in named:
            return f"{value!r} names {name} twice, which CUDA rejects: no GPU is visible"
        named.append(name)
    said = f"{value!r}: {_left(named)}"
    if any(entry.isdecimal() for entry in entries) and device_order != "PCI_BUS_ID" and len(gpus) > 1:
        said += "; numbers follow CUDA's order, fastest first, which may differ from the order below"
    if sum(entry.startswith("MIG-") for entry in entries) > 1:
        said += "; a process sees only one MIG device, unless the driver is very new"
    return said


def hides_every_gpu(value: str | None) -> bool:
    """Tell whether the variable asks for no GPU at all: it is empty, or begins with -1 or another non-name."""
    if value is None:
        return False
    first = value.split(",")[0].strip()
    return not (first.isdecimal() or first.startswith(("GPU-", "MIG-")))


def _name(entry: str, gpus: Sequence[NvmlGpu]) -> str | None:
    """Name what one entry selects; None when it selects nothing."""
    if entry.isdecimal():
        return f"GPU {int(entry)}" if not gpus or int(entry) < len(gpus) else None
    if entry.startswith("GPU-"):
        if all(gpu.uuid is None for gpu in gpus):
            return entry
        found = [gpu for gpu in gpus if gpu.uuid is not None and gpu.uuid.startswith(entry)]
        return f"GPU {found[0].index} ({found[0].name or 'unnamed'})" if len(found) == 1 else None
    if entry.startswith("MIG-"):
        known = [(gpu, mig) for gpu in gpus for mig in gpu.mig_devices if mig.uuid is not None]
        found_mig = [(gpu, mig) for gpu, mig in known if mig.uuid == entry]
        if found_mig:
            gpu, mig = found_mig[0]
            return f"MIG device {mig.name or entry} of GPU {gpu.index}"
        # Older drivers name a MIG device by its GPU and two numbers, which NVML does not list.
        return entry if not known or entry.startswith("MIG-GPU-") else None
    return None


def _left(named: Sequence[str]) -> str:
    listed = named[0] if len(named) == 1 else ", ".join(named[:-1]) + " and " + named[-1]
    numbers = "cuda:0" if len(named) == 1 else f"cuda:0 to cuda:{len(named) - 1}"
    return f"{listed} as {numbers}"
