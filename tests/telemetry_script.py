"""A launch as telemetry sees it, in a script: looked at before it, polled ten times a second, timed in the middle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.drive.telemetry import Telemetry
from bench.launch.launcher import LaunchEnd
from bench.launch.outcome import RankEnd
from bench.telemetry.samples import GpuTrack
from bench.telemetry.summary import Health
from bench.telemetry.watch import GpuWatch
from tests.fake_nvml import GIB, OWN_PID, FakeGpu, FakeNvml, ScriptClock
from tests.patience import PATIENCE_S

TIMED_S = (2.0, 8.0)
END_S = 9.0
RESERVED_BYTES = 8 * GIB


def play(
    gpus: Sequence[FakeGpu],
    *,
    refused: Mapping[str, tuple[float, int]] | None = None,
    timed_s: tuple[float, float] | None = TIMED_S,
    call_limit_s: float = PATIENCE_S,
    own_pids: Sequence[int] = (OWN_PID,),
    uuids: Sequence[str] | None = None,
    stops_s: float = END_S + 0.1,
    **timing: Any,
) -> Health:
    """Play one launch whose ranks have one GPU each, and give what a row gets of it.

    The last sample is taken at `END_S`; the launch has ended at `stops_s`.
    """
    clock = ScriptClock()
    nvml = FakeNvml(list(gpus), clock, refused or {})
    watch = GpuWatch(nvml, clock, call_limit_s=call_limit_s, first_limit_s=call_limit_s)
    stepped = Stepped(watch, clock)
    stepped.stops_s = stops_s
    telemetry = Telemetry([gpu.uuid for gpu in gpus] if uuids is None else uuids, stepped)
    with telemetry.watching("cuda", len(gpus)) as launch:
        pass
    health = launch.health(end_of(gpus, own_pids, timed_s, **timing))
    telemetry.close()
    return health


def end_of(
    gpus: Sequence[FakeGpu], pids: Sequence[int], timed_s: tuple[float, float] | None, **timing: Any
) -> LaunchEnd:
    """Say how the ranks of a launch ended."""
    ends = []
    for rank, gpu in enumerate(gpus):
        document: dict[str, Any] = {"outcome": "ok", "columns": {"gpu_uuid": gpu.uuid}}
        if timed_s is not None:
            edges = {f"{name}_{edge}_s": timed_s[edge == "to"] for name in ("timed", "held") for edge in ("from", "to")}
            own = {"pid": pids[rank] if rank < len(pids) else None, "reserved_bytes": RESERVED_BYTES}
            document["timing"] = {**own, **edges, **timing}
        ends.append(RankEnd(rank, 0, document, None))
    return LaunchEnd(tuple(ends), None, END_S, pids=tuple(pids))


class Stepped(GpuWatch):
    """Poll on the script's clock, all at once, in place of in the background."""

    def __init__(self, watch: GpuWatch, clock: ScriptClock) -> None:
        self.__dict__ = watch.__dict__
        self._script = clock
        self.stopped = 0
        self.stops_s = 0.0
        """When the launch has ended, where that is later than the last sample."""
        self.is_asleep = False
        """Whether the launch ends before the first sample."""

    def choose(self, uuids: Sequence[str]) -> None:
        """Begin the script anew with each launch."""
        self._script.now_s = 0.0
        super().choose(uuids)

    def start(self) -> None:
        """Play the launch to its end."""
        for tenth in range(0 if self.is_asleep else round(END_S * 10) + 1):
            self._script.now_s = tenth / 10
            self.poll_once(is_full=tenth % 2 == 0)

    def stop(self) -> list[GpuTrack]:
        """Note it."""
        self.stopped += 1
        self._script.now_s = max(self._script.now_s, self.stops_s)
        return super().stop()
