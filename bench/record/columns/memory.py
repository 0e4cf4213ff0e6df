"""Columns of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.record.column_types import Column, Kind, Rule


def _memory(name: str, rule: Rule, sentence: str, kind: Kind = "int64", source: str | None = None) -> Column:
    return Column(name, kind, "byte", "memory", rule, sentence, source)


def _per_rank(source: str) -> Column:
    sentence = f"{source} of every rank, in rank order."
    return _memory(f"{source}_per_rank", "per_rank", sentence, "list<int64>", source)


MEMORY: tuple[Column, ...] = (
    _memory(
        "peak_requested_bytes",
        "max",
        "Most bytes that live tensors and the scratch memory of libraries had asked the caching allocator for, worst "
        "rank, in memory pass and timed part; the parts of the peak add up to it. Null on a CPU.",
    ),
    _per_rank("peak_requested_bytes"),
    _memory(
        "peak_allocated_bytes",
        "max",
        "Most bytes in the blocks given for them, worst rank, in memory pass and timed part; on a CPU in live tensors, "
        "as witnessed, and null there for a compiled model.",
    ),
    _per_rank("peak_allocated_bytes"),
    _memory(
        "allocator_rounding_bytes",
        "worst",
        "peak_allocated_bytes - peak_requested_bytes of the rank: what the caching allocator gives beyond what it is "
        "asked for. It rounds to 512 bytes and leaves up to 1 MiB of a block unsplit, so this depends on what came "
        "before. Null on a CPU.",
    ),
    _memory(
        "first_update_peak_allocated_bytes",
        "max",
        "Most bytes in live tensors during the launch's first update, worst rank; null on a CPU.",
    ),
    _memory(
        "first_update_peak_reserved_bytes",
        "max",
        "Most bytes that the caching allocator held during the launch's first update, worst rank; null on a CPU.",
    ),
    _memory(
        "peak_active_bytes",
        "max",
        "Most bytes allocated, or freed but still held by a stream, worst rank; null on a CPU.",
    ),
    _per_rank("peak_active_bytes"),
    _memory("peak_reserved_bytes", "max", "Most bytes that the caching allocator held, worst rank; null on a CPU."),
    _per_rank("peak_reserved_bytes"),
    _memory(
        "peak_inactive_split_bytes",
        "max",
        "Most bytes in free parts of partly used allocator blocks, which cannot go back to the GPU driver, worst "
        "rank; null on a CPU.",
    ),
    Column(
        "peak_phase",
        "string",
        None,
        "memory",
        "worst",
        "Where in the window the peak was: forward, backward or update; null when the timed part or another window "
        "exceeded the largest window of the memory pass.",
    ),
    _memory("parameter_bytes", "max", "Bytes of the unique parameters, which live throughout."),
    _memory("buffer_bytes", "max", "Bytes of the model's buffers, which live throughout."),
    _memory("gradient_bytes", "max", "Bytes of all gradients together, worst rank."),
    _memory(
        "gradient_at_peak_bytes",
        "worst",
        "Bytes of gradients at the peak: of all gradients with two accumulation steps or more, of fewer with one; "
        "null when the peak could not be divided into its parts.",
    ),
    _memory(
        "optimizer_state_bytes",
        "max",
        "Bytes of the optimizer's state on the device after an applied update, which lives throughout, worst rank.",
    ),
    _memory(
        "activation_bytes",
        "worst",
        "Bytes kept at the peak for the backward: what autograd saved, without parameters and their casts, and what "
        "activation checkpointing recomputed; null when the peak could not be divided into its parts.",
    ),
    _memory(
        "ddp_bucket_bytes",
        "worst",
        "Bytes of DistributedDataParallel's gradient buckets at the peak; null when the peak could not be divided "
        "into its parts.",
    ),
    _memory(
        "temporary_bytes",
        "worst",
        "The rest of the peak: results not saved, gradients of activations, autocast's copies of weights, scratch "
        "memory of the optimizer and of libraries. Parameters + buffers + gradients at the peak + optimizer state + "
        "activations + buckets + temporaries = peak_requested_bytes, or peak_allocated_bytes where that is null.",
    ),
    _memory(
        "unwitnessed_bytes",
        "worst",
        "Those of the temporaries that were in no operator's tensor, such as scratch memory of libraries: the peak "
        "minus what the witness saw at its own. 0 on a CPU, where such memory is not counted.",
    ),
    _memory("host_peak_rss_bytes", "max", "Peak of the process's resident memory, worst rank."),
    _per_rank("host_peak_rss_bytes"),
    Column(
        "alloc_retries",
        "int64",
        "retry",
        "memory",
        "sum",
        "Allocations retried after freeing cached blocks, all ranks.",
    ),
    Column(
        "alloc_ooms", "int64", "error", "memory", "sum", "Allocations that failed because memory was full, all ranks."
    ),
    _memory(
        "device_capacity_bytes",
        "min",
        "Total memory of the smallest device; on a CPU that of the host, or what a container may use of it.",
    ),
    _memory(
        "outside_torch_at_most_bytes",
        "max",
        "Upper bound of outside_torch_bytes, used where that is null: bytes in use on the GPU after the last update, "
        "as the rank itself asked the GPU driver, minus those of its caching allocator; includes other processes; "
        "null on a CPU.",
    ),
    _memory(
        "device_used_bytes",
        "launch",
        "Most bytes in use on a GPU at any sample of the launch, fullest GPU; includes contexts, NCCL's buffers and "
        "other processes, but not what the GPU driver keeps for itself (NVML's second version of the figure).",
    ),
    _memory(
        "outside_torch_bytes",
        "launch",
        "Bytes that a rank's process held on its GPU at the end of the timed part, minus those of its caching "
        "allocator: context, NCCL, libraries; worst rank. Told by the samples while the allocator held no more than "
        "then. See outside_torch_method; null where unknown.",
    ),
    Column(
        "outside_torch_method",
        "string",
        None,
        "memory",
        "launch",
        "How outside_torch_bytes was measured: process (the GPU driver's figure for the rank's process) or, where "
        "there is none, device (the GPU's use minus its use before the launch; only where the driver lists processes,"
        " and none of others).",
    ),
    Column(
        "fits",
        "bool",
        None,
        "memory",
        "derived",
        "Whether the launch left 5% of the memory free: no allocation was retried, and peak_reserved_bytes + "
        "outside_torch_bytes (or its upper bound) <= 0.95 x device_capacity_bytes. On a CPU the ranks share the host:"
        " host_peak_rss_bytes x world_size <= 0.95 x device_capacity_bytes. False when it ran out of memory; null "
        "when memory outside torch is unknown, or when only its upper bound does not fit.",
    ),
    _memory(
        "headroom_bytes",
        "derived",
        "device_capacity_bytes minus the bytes that fits compares with it; negative when there is too little; a lower"
        " bound where memory outside torch is known only as an upper bound.",
    ),
    Column(
        "headroom_share", "float64", None, "memory", "derived", "headroom_bytes / device_capacity_bytes, from 0 to 1."
    ),
    Column(
        "allocator_settings",
        "string",
        None,
        "memory",
        "same",
        "Settings of the caching allocator in force, as torch read them from PYTORCH_CUDA_ALLOC_CONF or "
        "PYTORCH_ALLOC_CONF; the word default without any, and on a CPU.",
    ),
    Column(
        "memory_method",
        "string",
        None,
        "memory",
        "same",
        "How peak bytes were measured: live_storages (CPU), caching_allocator (CUDA), or standin (a stand-in for a "
        "GPU: bytes only, no speed, loss or energy).",
    ),
)
"""Memory: bytes. Requested <= allocated <= active <= reserved <= capacity."""

PARTS_OF_THE_PEAK = (
    *("parameter_bytes", "buffer_bytes", "gradient_at_peak_bytes", "optimizer_state_bytes"),
    *("activation_bytes", "ddp_bucket_bytes", "temporary_bytes"),
)
"""Columns that add up to the peak that was divided, to the byte; all known or none is."""


def divided_bytes(row: Mapping[str, Any]) -> int | None:
    """Give the peak that the parts add up to: of requested bytes, of allocated ones where these are null [bytes]."""
    requested: int | None = row.get("peak_requested_bytes")
    return row.get("peak_allocated_bytes") if requested is None else requested
