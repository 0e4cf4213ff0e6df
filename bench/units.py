"""Base units, ratios, counts and lists become readable text here, and nowhere else.

Stored values are bytes, seconds, tokens. GiB (1024**3), ms and thousands separators exist only on screen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    return f"{short_number(per_second)} {thing}/s"


def short_number(value: float | None) -> str:
    """Write a number as 12.3k or 1.20M, as where the heading names its unit; a dash for null."""
    if value is None or math.isnan(value):
        return "-"
    for suffix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{_three_digits(value / size)}{suffix}"
    return _three_digits(value)


def format_flops(per_second: float | None) -> str:
    """Write a rate of floating-point operations as 312 TFLOP/s; a dash for null."""
    if per_second is None or math.isnan(per_second):
        return "-"
    for prefix, size in (("T", 1e12), ("G", 1e9)):
        if abs(per_second) >= size:
            return f"{_three_digits(per_second / size)} {prefix}FLOP/s"
    return f"{_three_digits(per_second / 1e6)} MFLOP/s"


def share_text(share: float) -> str:
    """Write a share of a whole, 0.5 %."""
    return f"{100 * share:.3g} %"


def percent(ratio: float) -> str:
    """Write a ratio as a change, +12.3 %; as a factor, x 3.40, from twice on."""
    if ratio >= 2:
        return f"x {ratio:.2f}"
    return f"{100 * (ratio - 1):+.1f} %"


def between(low: float, high: float) -> str:
    """Write an interval of ratios as changes, +1.2 to +3.4 %."""
    if low >= 2:
        return f"x {low:.2f} to {high:.2f}"
    return f"{100 * (low - 1):+.1f} to {100 * (high - 1):+.1f} %"


def hours_text(hours: float) -> str:
    """Write hours with three significant digits; minutes below an hour, days from four days on."""
    if hours < 1:
        return f"{_three_digits(hours * 60)} min"
    return f"{_three_digits(hours)} h" if hours < 96 else f"{_three_digits(hours / 24)} days"


def tokens_text(tokens: int) -> str:
    """Write a number of tokens as people say it: 300 billion, 1.5 million."""
    for size, name in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if tokens >= size:
            return f"{tokens / size:.6g} {name}"
    return format_count(tokens)


def joules_text(joules: float) -> str:
    """Write joules with the unit that fits, and kilowatt-hours from one on."""
    kwh = joules / 3.6e6
    for size, name in ((1e9, "GJ"), (1e6, "MJ"), (1e3, "kJ")):
        if joules >= size:
            return f"{_three_digits(joules / size)} {name}" + (f" ({_three_digits(kwh)} kWh)" if kwh >= 1 else "")
    return f"{_three_digits(joules)} J"


def counted(count: int | None, thing: str) -> str:
    """Write a count with its noun: 1 round, 3 rounds, 2 launches."""
    ending = "" if count == 1 else "es" if thing.endswith(("ch", "sh", "s", "x")) else "s"
    return f"{count} {thing}{ending}"


def signed(count: int | None) -> str:
    """Write a difference with its sign, +1,024; 0 has none, and null is a dash."""
    return "-" if count is None else f"{count:+,}" if count else "0"


def listed(texts: Sequence[str], most: int, joint: str = ", ") -> str:
    """Join texts, at most so many: a, b and 3 more."""
    rest = len(texts) - most
    return joint.join(texts[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def cut_text(text: str, most: int) -> str:
    """Cut a text of more than so many characters at the end of a word, and show that it goes on."""
    if len(text) <= most:
        return text
    head = text[: most - len(" ...")]
    words, _, _ = head.rpartition(" ") if text[len(head)] != " " else (head, "", "")
    return f"{(words or head).rstrip()} ..."


def _three_digits(value: float) -> str:
    """Write a number with about three significant digits and no exponent."""
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:,.{decimals}f}"
