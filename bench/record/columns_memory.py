"""Columns of bytes."""

from __future__ import annotations

from bench.record.column_types import Column, Kind, Rule


def _memory(name: str, rule: Rule, sentence: str, kind: Kind = "int64", source: str | None = None) -> Column:
    return Column(name, kind, "byte", "memory", rule, sentence, source)


MEMORY: tuple[Column, ...] = (
    _memory(
        "peak_allocated_bytes",
        "max",
        "Most bytes in live tensors, worst rank; on a CPU the live tensor storages of the memory pass.",
    ),
    _memory(
        "peak_allocated_bytes_per_rank",
        "per_rank",
        "peak_allocated_bytes of every rank, in rank order.",
        "list<int64>",
        "peak_allocated_bytes",
    ),
    _memory(
        "first_update_peak_allocated_bytes",
        "max",
        "Most bytes in live tensors during the launch's first update, worst rank.",
    ),
    _memory(
        "peak_active_bytes",
        "max",
        "Most bytes allocated or freed but still held by a stream, worst rank; null on a CPU.",
    ),
    _memory("peak_reserved_bytes", "max", "Most bytes the caching allocator held, worst rank; null on a CPU."),
    _memory("parameter_bytes", "max", "Bytes of the unique parameters, worst rank."),
    _memory("gradient_bytes", "max", "Bytes of all gradients, worst rank."),
    _memory("optimizer_state_bytes", "max", "Bytes of the optimizer's state after an applied update, worst rank."),
    _memory("host_peak_rss_bytes", "max", "High-water mark of the process's resident memory, worst rank."),
    Column(
        "alloc_retries",
        "int64",
        "retry",
        "memory",
        "sum",
        "Allocations that had to free cached blocks first, all ranks.",
    ),
    Column("alloc_ooms", "int64", "error", "memory", "sum", "Allocations that failed for want of memory, all ranks."),
    _memory("device_capacity_bytes", "min", "Total memory of the device, smallest rank; host memory on a CPU."),
    Column(
        "memory_method",
        "string",
        None,
        "memory",
        "same",
        "How peak bytes were taken: live_storages (CPU) or caching_allocator (CUDA).",
    ),
)
"""Memory: bytes. Allocated <= active <= reserved <= capacity."""
