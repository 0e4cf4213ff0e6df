"""Write ratios, intervals and long durations for people."""

from __future__ import annotations

from bench.units import format_count


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
        return f"{_three(hours * 60)} min"
    return f"{_three(hours)} h" if hours < 96 else f"{_three(hours / 24)} days"


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
            return f"{_three(joules / size)} {name}" + (f" ({_three(kwh)} kWh)" if kwh >= 1 else "")
    return f"{_three(joules)} J"


def _three(value: float) -> str:
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{decimals}f}"
