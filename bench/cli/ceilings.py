"""The ceilings of devices, for people: what `bench env` says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench.cli.options import hang
from bench.units import counted, format_bytes, format_flops

_Line = tuple[str, dict[str, Any] | None, Callable[[float | None], str], Callable[[int], str]]
"""Name, ceiling, how its rate is written, how its size is."""


def ceilings_text(report: dict[str, Any], width: int) -> Iterator[str]:
    """Write the ceilings that are kept for the devices of a report, or were just measured."""
    yield "Measured ceilings"
    problems: list[str] = report["ceilings_problems"]
    for problem in problems:
        yield from hang("  ", problem, width, 4)
    if not report["ceilings"] and not problems:
        yield from hang("  ", "none yet: bench env --calibrate measures them", width, 4)
    for document in report["ceilings"]:
        yield from _device(document, width)


def _device(document: dict[str, Any], width: int) -> Iterator[str]:
    from bench.machine.calibration import BUSY_SPREAD

    key = document["key"]
    threads = "" if key["threads"] is None else f"{counted(key['threads'], 'thread')}, "
    yield from hang("  ", f"{key['name']}, {threads}torch {key['torch_version']}, {document['measured_utc']}", width, 4)
    rows: list[_Line] = [(f"matmul {name}", found, format_flops, _square) for name, found in document["matmul"].items()]
    rows.append(("copy", document["copy"], _bytes_per_s, _copied))
    if key["device"] == "cuda":
        rows.append(("host to device", document["host_to_device"], _bytes_per_s, _buffer))
    for name, found, rate, size in rows:
        if found is None:
            yield from hang("    ", f"{name:<14}  not measured: not enough memory", width, 6)
        else:
            spread = f"spread {100 * found['spread']:.0f} %"
            line = f"{name:<14}  {rate(found['per_s']):>12}  {spread:<13}  {size(found['size'])}"
            yield from hang("    ", line, width, 6)
    disturbed = [name for name, found, _, _ in rows if found is not None and found["spread"] > BUSY_SPREAD]
    if disturbed:
        yield from hang(
            "  ",
            f"warning: a spread above {100 * BUSY_SPREAD:.0f} % ({', '.join(disturbed)}) means that the machine was "
            "busy. Such a ceiling is not used: measure again when nothing else runs.",
            width,
            4,
        )


def _bytes_per_s(per_s: float | None) -> str:
    return f"{format_bytes(per_s)}/s"


def _square(size: int) -> str:
    return f"{size} x {size}"


def _buffer(size: int) -> str:
    return format_bytes(size)


def _copied(size: int) -> str:
    return f"{format_bytes(size)}, read and written"
