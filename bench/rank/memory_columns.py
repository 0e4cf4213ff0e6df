"""How many bytes a launch took, where, and what the peak consisted of, as columns of one rank."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from bench.measure.device import Witnessed
from bench.measure.host import host_peak_rss_bytes
from bench.measure.profiler import PartName
from bench.rank.protocol import Observations
from bench.rank.workbench import Workbench
from bench.record.columns.memory import divided_bytes
from bench.units import format_bytes
from bench.workload.facts import live_gradients, optimizer_tensors, tensor_bytes

_PEAK_PARTS: tuple[PartName, ...] = ("memory", "timed", "confirm", "whole")
"""Parts of a launch in which nobody watches and nothing is new: their counters tell the peaks."""


def memory_facts(bench: Workbench) -> dict[str, Any]:
    """State what is known before the first update [one rank]."""
    properties = bench.device.properties()
    return {
        "parameter_bytes": tensor_bytes(bench.model.parameters()),
        "buffer_bytes": tensor_bytes(bench.model.buffers()),
        "device_capacity_bytes": properties.capacity_bytes,
        "memory_method": bench.device.memory_method,
        "allocator_settings": bench.device.allocator_settings(),
    }


def memory_columns(bench: Workbench, observed: Observations) -> dict[str, Any]:
    """State peaks and the allocator's troubles, all before any update was witnessed [one rank]."""
    first = next(observed.part("first"))
    parts = [part for name in _PEAK_PARTS for part in observed.part(name)]
    requested = _largest([part.peaks.requested_bytes for part in parts])
    allocated = _largest([part.peaks.allocated_bytes for part in parts])
    allocator = bench.device.allocator_counts()
    phase = observed.peak_phase
    return {
        "peak_requested_bytes": requested,
        "peak_allocated_bytes": allocated,
        "allocator_rounding_bytes": None if allocated is None or requested is None else allocated - requested,
        "peak_phase": None if phase is None or phase[1] != requested else phase[0],
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
        "optimizer_state_bytes": tensor_bytes(
            tensor for tensor in optimizer_tensors(bench.optimizer) if tensor.device.type == bench.device.kind
        ),
    }


def requested_bytes(observed: Observations, name: PartName) -> int | None:
    """Give the most that was requested in the parts of this name [bytes]; None on a device without counters."""
    return _largest([part.peaks.requested_bytes for part in observed.part(name)])


def divide_peak(columns: Mapping[str, Any], witnessed: Witnessed) -> dict[str, Any]:
    """Divide the peak by what the witness saw at its own highest moment [one rank].

    On a device with counters the peak is theirs, reached when nobody watched. Under the witness autograd adds gradients
    up out of place, so the witness's own peak may be of another moment. Taken over are the bytes with a name: kept for
    the backward, gradients, buckets. What the counters' peak holds beside these and what lives throughout is temporary,
    so the parts add up to it to the byte. They are null where they would be of another moment: the phase of the peak is
    not known or not the witness's, or the witness saw more than the peak. Without counters the peak is the witness's.

    Args:
        columns: Of this rank, those of `memory_facts` and `memory_columns`.
        witnessed: An update of the largest window.
    """
    parts = witnessed.parts
    has_counters = columns["peak_requested_bytes"] is not None
    own: dict[str, Any] = {} if has_counters else {"peak_allocated_bytes": witnessed.live_peak_bytes}
    peak = columns["peak_requested_bytes"] if has_counters else witnessed.live_peak_bytes
    if not has_counters and parts is not None:
        own["peak_phase"] = parts.phase
    if peak is None or parts is None or (has_counters and columns["peak_phase"] != parts.phase):
        return own
    lasting = sum(columns[name] for name in ("parameter_bytes", "buffer_bytes", "optimizer_state_bytes"))
    named = parts.gradient_bytes + parts.activation_bytes + parts.ddp_bucket_bytes
    if max(parts.total_bytes, lasting + named) > peak:
        return own
    return own | {
        "gradient_at_peak_bytes": parts.gradient_bytes,
        "activation_bytes": parts.activation_bytes,
        "ddp_bucket_bytes": parts.ddp_bucket_bytes,
        "temporary_bytes": peak - lasting - named,
        "unwitnessed_bytes": peak - parts.total_bytes,
    }


def why_memory_is_wrong(columns: Mapping[str, Any]) -> str | None:
    """Say which identity of memory the columns of one rank break; None when all hold.

    A peak below what lives from update to update was reset to 0 on the way, or counts something else.
    """
    peak = divided_bytes(columns)
    names = ("parameter_bytes", "gradient_bytes", "optimizer_state_bytes")
    lasting = sum(columns.get(name) or 0 for name in names)
    if peak is not None and peak < lasting:
        return (
            f"the peak of {format_bytes(peak)} is less than the {format_bytes(lasting)} of parameters, gradients and "
            "optimizer state: the memory counters are wrong"
        )
    if columns.get("peak_reserved_bytes") is None:
        return None
    chain = (
        *("peak_requested_bytes", "peak_allocated_bytes", "peak_active_bytes", "peak_reserved_bytes"),
        "device_capacity_bytes",
    )
    known = [(name, columns[name]) for name in chain if columns.get(name) is not None]
    for (lower, less), (upper, more) in itertools.pairwise(known):
        if less > more:
            return f"{lower} = {less:,} exceeds {upper} = {more:,}: the memory counters are wrong"
    return None


def _largest(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None
