"""How many bytes a launch took, where, and what the peak consisted of, as columns of one rank."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from bench.measure.host import host_peak_rss_bytes
from bench.rank.allocator_settings import allocator_settings
from bench.rank.protocol import MEMORY_UPDATES, Observations
from bench.rank.workbench import Workbench
from bench.units import format_bytes
from bench.workload.facts import live_gradients, optimizer_tensors, tensor_bytes

_PARTS = (
    *("peak_phase", "gradient_at_peak_bytes", "activation_bytes", "ddp_bucket_bytes", "temporary_bytes"),
    "unwitnessed_bytes",
)


def memory_facts(bench: Workbench) -> dict[str, Any]:
    """State what is known before the first update [one rank]."""
    properties = bench.device.properties()
    return {
        "parameter_bytes": tensor_bytes(bench.model.parameters()),
        "buffer_bytes": tensor_bytes(bench.model.buffers()),
        "device_capacity_bytes": properties.capacity_bytes,
        "memory_method": bench.device.memory_method,
        "allocator_settings": allocator_settings(bench.device.kind),
    }


def memory_columns(bench: Workbench, observed: Observations) -> dict[str, Any]:
    """State peaks, what they consisted of, and the allocator's troubles [one rank]."""
    first = next(observed.part("first"))
    parts = [*observed.part("memory"), *observed.part("timed"), *observed.part("confirm"), *observed.part("whole")]
    peak_bytes = _largest([memory_pass_bytes(observed), *(part.peaks.allocated_bytes for part in parts)])
    allocator = bench.device.allocator_counts()
    state = [tensor for tensor in optimizer_tensors(bench.optimizer) if tensor.device.type == bench.device.kind]
    lasting = [*bench.model.parameters(), *bench.model.buffers(), *state]
    return {
        "peak_allocated_bytes": peak_bytes,
        "first_update_peak_allocated_bytes": first.peaks.allocated_bytes,
        "first_update_peak_reserved_bytes": first.peaks.reserved_bytes,
        "peak_active_bytes": _largest([part.peaks.active_bytes for part in parts]),
        "peak_reserved_bytes": _largest([part.peaks.reserved_bytes for part in parts]),
        "peak_inactive_split_bytes": _largest([part.peaks.inactive_split_bytes for part in parts]),
        "outside_torch_at_most_bytes": bench.device.outside_allocator_bytes(),
        "host_peak_rss_bytes": host_peak_rss_bytes(),
        "alloc_retries": allocator.retries,
        "alloc_ooms": allocator.ooms,
        "gradient_bytes": tensor_bytes(live_gradients(bench.model)),
        "optimizer_state_bytes": tensor_bytes(state),
        **_breakdown(observed, peak_bytes, tensor_bytes(lasting)),
    }


def memory_peak(observed: Observations, index: int) -> int | None:
    """Give the peak of one update of the memory pass, as the device or the witness knows it [bytes]."""
    part, witnessed = list(observed.part("memory"))[index], observed.memory_passes[index]
    return witnessed.live_peak_bytes if part.peaks.allocated_bytes is None else part.peaks.allocated_bytes


def memory_pass_bytes(observed: Observations) -> int | None:
    """Give the largest peak of the memory pass [bytes]."""
    return _largest([memory_peak(observed, index) for index in range(MEMORY_UPDATES)])


def _breakdown(observed: Observations, peak_bytes: int | None, lasting_bytes: int) -> dict[str, Any]:
    """Divide the peak; nulls unless the memory pass reached it and the witness saw it in the same phase.

    What is left after all that has a name is temporary: so the parts add up to the peak to the byte.
    """
    divided: dict[str, Any] = dict.fromkeys(_PARTS)
    peaks = [memory_peak(observed, index) for index in range(MEMORY_UPDATES)]
    if peak_bytes is None or peak_bytes not in peaks:
        return divided
    # The last of equal ones: what DistributedDataParallel gathers in is known only after an exchange was seen.
    witnessed = observed.memory_passes[max(index for index, peak in enumerate(peaks) if peak == peak_bytes)]
    divided["peak_phase"] = witnessed.peak_phase
    if witnessed.live_peak_bytes is not None:
        divided["unwitnessed_bytes"] = peak_bytes - witnessed.live_peak_bytes
    parts = witnessed.parts
    if parts is None or parts.phase != witnessed.peak_phase:
        return divided
    named = parts.gradient_bytes + parts.activation_bytes + parts.ddp_bucket_bytes
    if lasting_bytes + named > peak_bytes:
        return divided
    return divided | {
        "gradient_at_peak_bytes": parts.gradient_bytes,
        "activation_bytes": parts.activation_bytes,
        "ddp_bucket_bytes": parts.ddp_bucket_bytes,
        "temporary_bytes": peak_bytes - lasting_bytes - named,
    }


def why_memory_is_wrong(columns: Mapping[str, Any]) -> str | None:
    """Say which identity of memory the columns of one rank break; None when all hold.

    A peak below what lives from update to update was reset to 0 on the way, or counts something else.
    """
    peak = columns.get("peak_allocated_bytes")
    names = ("parameter_bytes", "gradient_bytes", "optimizer_state_bytes")
    lasting = sum(columns.get(name) or 0 for name in names)
    if peak is not None and peak < lasting:
        return (
            f"the peak of {format_bytes(peak)} is less than the {format_bytes(lasting)} of parameters, gradients and "
            "optimizer state: the memory counters are wrong"
        )
    if columns.get("peak_reserved_bytes") is None:
        return None
    chain = ("peak_allocated_bytes", "peak_active_bytes", "peak_reserved_bytes", "device_capacity_bytes")
    known = [(name, columns[name]) for name in chain if columns.get(name) is not None]
    for (lower, less), (upper, more) in itertools.pairwise(known):
        if less > more:
            return f"{lower} = {less:,} exceeds {upper} = {more:,}: the memory counters are wrong"
    return None


def _largest(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None
