"""Where a rank is right now, in a mapped file of a few bytes: readable after the rank was killed."""

from __future__ import annotations

import mmap
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the driver reads heartbeats and must not import torch
    from bench.loop.observer import UpdateResult
    from bench.loop.plan import WindowPlan

PHASES = ("start", "build", "join", "data", "forward", "backward", "update", "validate", "finish", "prove")
"""Phases of a rank, in the order in which it first reaches them; a proof has only the last."""

_LAYOUT = struct.Struct("<QqqqQQ")
_NUMBER_OF = {phase: number for number, phase in enumerate(PHASES)}


@dataclass(frozen=True)
class Beat:
    """State the last sign of life of one rank."""

    phase: str
    update: int
    """Update under way, from 0; -1 before the first."""
    micro_batch: int
    """Micro-batch of the window under way, from 0; -1 outside a window."""
    monotonic_s: float
    """When, on the machine's monotonic clock [s]."""
    beats: int
    """Signs of life so far."""
    micro_steps: int = 0
    """Micro-steps ended so far, over all windows."""


class Heartbeat:
    """Write one rank's signs of life; an observer of the loop. A beat costs about a microsecond and no system call."""

    def __init__(self, path: Path) -> None:
        self.phase = "start"
        self.update = -1
        self.micro_batch = -1
        self._beats = 0
        self._micro_steps = 0
        with path.open("w+b") as file:
            file.truncate(_LAYOUT.size)
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size)
        self.beat("start")

    def beat(self, phase: str) -> None:
        """Say what this rank does now."""
        self.phase = phase
        self._beats += 1
        _LAYOUT.pack_into(
            self._map,
            0,
            _NUMBER_OF[phase],
            self.update,
            self.micro_batch,
            time.monotonic_ns(),
            self._beats,
            self._micro_steps,
        )

    def window_begin(self, plan: WindowPlan) -> None:
        """Note the update under way."""
        self.update = plan.update
        self.micro_batch = 0

    def phase_begin(self, phase: str) -> None:
        """Note the phase."""
        self.beat(phase)

    def micro_step_end(self) -> None:
        """Note that the next micro-batch is due; the next phase tells."""
        self.micro_batch += 1
        self._micro_steps += 1

    def update_end(self, result: UpdateResult) -> None:
        """Note that the window is over."""
        del result
        self.micro_batch = -1
        self.beat("data")


def read_beat(path: Path) -> Beat | None:
    """Read a rank's last sign of life; None when there was none."""
    try:
        number, update, micro_batch, monotonic_ns, beats, micro_steps = _LAYOUT.unpack(path.read_bytes())
    except (OSError, struct.error):
        return None
    if beats == 0 or number >= len(PHASES):
        return None
    return Beat(PHASES[number], update, micro_batch, monotonic_ns / 1e9, beats, micro_steps)
