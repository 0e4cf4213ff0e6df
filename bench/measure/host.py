"""What the host is: processor, memory, and the limits a container puts on them. No torch."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

_PROC = Path("/proc")
_CGROUP = Path("/sys/fs/cgroup")
_UNITS = {"bf16": {"avx512_bf16", "amx_bf16", "bf16", "svebf16"}, "fp16": {"avx512_fp16", "amx_fp16", "asimdhp"}}
"""Flags of a processor, any of which means that it multiplies matrices of the type."""


def cpu_model() -> str:
    """Read the processor's name as the kernel gives it; the architecture where it gives none (ARM)."""
    try:
        lines = (_PROC / "cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine() or "unknown"


def cpu_16bit_dtypes() -> list[str] | None:
    """List which of bf16 and fp16 the processor multiplies itself; others are emulated.

    By the flags of /proc/cpuinfo: AVX-512 or AMX units on x86, those of the vector units on ARM; None
    where the kernel tells none.
    """
    try:
        lines = (_PROC / "cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, flags = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return [dtype for dtype, units in _UNITS.items() if units & {*flags.split()}]
    return None


def usable_cores() -> int:
    """Count the cores this process may run on [cores]."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return psutil.cpu_count() or 1


def cgroup_cores() -> float | None:
    """Read how many cores' worth of time a container may use (cgroup v2, cpu.max); None without such a limit."""
    quota, _, period = _first_line(_CGROUP / "cpu.max").partition(" ")
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() else None


def cgroup_memory_bytes() -> int | None:
    """Read how much memory a container may use (cgroup v2, memory.max) [bytes]; None without such a limit."""
    limit = _first_line(_CGROUP / "memory.max")
    return int(limit) if limit.isdecimal() else None


def host_peak_rss_bytes() -> int | None:
    """Read the most resident memory this process had (VmHWM) [bytes]; None without /proc."""
    try:
        status = (_PROC / "self" / "status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None


def _first_line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
