"""Group any stream of micro-batches into windows, alike on ranks that have different amounts of data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from bench.loop.agreement import Agreement, SingleRankAgreement
from bench.loop.buffered import Window, buffered_windows
from bench.loop.plan import WindowCounts
from bench.loop.streamed import streamed_windows

WindowMode = Literal["buffered", "streamed"]
Tail = Literal["keep", "drop"]


def windows(
    micro_batches: Iterable[Any],
    accumulation_steps: int,
    count: Callable[[Any], WindowCounts],
    *,
    agreement: Agreement | None = None,
    window_mode: WindowMode = "buffered",
    nominal_units: float | None = None,
    tail: Tail = "keep",
    first_update: int = 0,
) -> Iterator[Window]:
    """Give windows of at most A micro-batches until no rank has any left: ceil(N / A) of them on one rank [one rank].

    Ranks may have different numbers of micro-batches, or none; all get the same number of windows, each agreed while
    the one before it runs. A window with fewer than A micro-batches on some rank is partial, and an update like any
    other. Run each window before asking for the next.

    Args:
        micro_batches: N micro-batches of this rank, on the host.
        accumulation_steps: A, most micro-batches of a window on each rank.
        count: What one micro-batch holds; a loss of `bench.loop.losses` has it as its `count`.
        agreement: How ranks agree; None on a single rank.
        window_mode: buffered: a window and the next wait on the host; streamed: one micro-batch is read ahead.
        nominal_units: Units of a full window over all ranks, roughly, equal on all ranks; streamed only.
        tail: keep makes an update of a partial window; drop ends before it (buffered only).
        first_update: Number of the first update, when training is resumed.

    Raises:
        ValueError: A setting makes no sense, or no rank has any micro-batch (when the first window is asked for).
    """
    if accumulation_steps < 1:
        raise ValueError(f"accumulation_steps = {accumulation_steps} must be at least 1.")
    if (window_mode == "streamed") != (nominal_units is not None and nominal_units > 0):
        raise ValueError(
            f"nominal_units = {nominal_units} does not fit window_mode {window_mode}: streamed windows need the units "
            "of a full window, above 0; buffered windows count them."
        )
    if window_mode == "streamed" and tail == "drop":
        raise ValueError(
            "tail: drop does not work with streamed windows: whether one is partial is known only after it ran. "
            "Use buffered."
        )
    agreement = agreement or SingleRankAgreement()
    if nominal_units is not None:
        return streamed_windows(micro_batches, accumulation_steps, count, agreement, nominal_units, first_update)
    return buffered_windows(micro_batches, accumulation_steps, count, agreement, tail == "drop", first_update)
