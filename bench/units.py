"""Base units become readable text here, and nowhere else.

Stored values are bytes, seconds, tokens. GiB (1024**3), ms and thousands separators exist only on screen.
"""

from __future__ import annotations

import math

_BYTE_UNITS = (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))
_SECOND_UNITS = (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6))


def byte_unit(largest: float) -> tuple[str, int]:
    """Choose the unit in which values up to `largest` bytes read best: its name and its size [bytes]."""
    for name, size in _BYTE_UNITS:
        if largest >= size:
            return name, size
    return "B", 1


def format_bytes(count: float | None) -> str:
    """Write bytes as 1.23 GiB; a dash for null."""
    if count is None or math.isnan(count):
        return "-"
    name, size = byte_unit(abs(count))
    return f"{count:.0f} B" if size == 1 else f"{_three_digits(count / size)} {name}"


def format_seconds(seconds: float | None) -> str:
    """Write seconds as 1.23 s, 45.6 ms or 2.5 h; a dash for null."""
    if seconds is None or math.isnan(seconds):
        return "-"
    if seconds == 0:
        return "0 s"
    for name, size in _SECOND_UNITS:
        if abs(seconds) >= size:
            return f"{_three_digits(seconds / size)} {name}"
    return f"{seconds * 1e9:.3g} ns"


def format_count(count: float | None) -> str:
    """Write a count with thousands separators; a dash for null."""
    if count is None or (isinstance(count, float) and math.isnan(count)):
        return "-"
    return f"{count:,.0f}"


def format_rate(per_second: float | None, thing: str = "tokens") -> str:
    """Write a rate as 12.3k tokens/s; a dash for null."""
    if per_second is None or math.isnan(per_second):
        return "-"
    for suffix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(per_second) >= size:
            return f"{_three_digits(per_second / size)}{suffix} {thing}/s"
    return f"{_three_digits(per_second)} {thing}/s"


def format_flops(per_second: float | None) -> str:
    """Write a rate of floating-point operations as 312 TFLOP/s; a dash for null."""
    if per_second is None or math.isnan(per_second):
        return "-"
    for prefix, size in (("T", 1e12), ("G", 1e9)):
        if abs(per_second) >= size:
            return f"{_three_digits(per_second / size)} {prefix}FLOP/s"
    return f"{_three_digits(per_second / 1e6)} MFLOP/s"


def _three_digits(value: float) -> str:
    """Write a number with about three significant digits and no exponent."""
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:,.{decimals}f}"
