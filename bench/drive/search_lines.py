"""Say what the searches of a sweep found: the largest micro-batch that fits."""

from __future__ import annotations

from collections.abc import Sequence

from bench.drive.history import History
from bench.drive.schedule import is_searching, probes_of
from bench.drive.search import largest_that_fits
from bench.sweep.names import axis_columns, value_word
from bench.sweep.trial import Search, Skipped, Trial


def search_lines(points: Sequence[Trial | Skipped | Search], history: History) -> list[str]:
    """Write one line for each search that was begun, such as "fp32: the largest micro-batch that fits is 16"."""
    lines = []
    for point in points:
        if isinstance(point, Search) and probes_of(point, history):
            settings = axis_columns([(name, value) for name, value in point.axis_values if name != "micro_batch_size"])
            words = (str(value) if name == "amp_mode" else value_word(name, value) for name, value in settings.items())
            name = ", ".join(word for word in words if word)
            lines.append(f"{name}: {_found(point, history)}" if name else _found(point, history))
    return lines


def _found(search: Search, history: History) -> str:
    probes = probes_of(search, history)
    largest = largest_that_fits(probes)
    failed = [size for size, probe in probes.items() if probe.fits is None]
    if failed:
        so_far = "" if largest is None else f"; {largest} fits"
        return f"the largest micro-batch that fits is unknown: {failed[0]} failed{so_far}"
    if is_searching(search, history):
        return "the largest micro-batch that fits is not found yet" + ("" if largest is None else f"; {largest} fits")
    if largest is None:
        return f"no micro-batch fits, not even {min(probes)}"
    words = f"the largest micro-batch that fits is {largest}"
    return words + ", the largest size to try" * (largest == search.candidates[-1].config.micro_batch_size)
