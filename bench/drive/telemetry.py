"""How the GPUs of a sweep's launches did while they ran, as NVML tells this process. No torch here.

CPU trials ask NVML nothing and wait for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bench.launch.launcher import LaunchEnd
from bench.launch.outcome import RankEnd
from bench.telemetry.samples import GpuSample, GpuTrack, RankTiming, is_same_gpu
from bench.telemetry.summary import NOT_WATCHED, Health, summarise
from bench.telemetry.watch import GpuWatch

HOT_C = 3
"""How much hotter than the first launch's timed part a GPU may be before a launch [degrees Celsius]."""
COOL_DOWN_S = 60.0
"""Longest wait for a hot GPU, and no longer than the last launch took, so that a sweep takes at most twice its time."""
_LOOK_S = 1.0


class Telemetry:
    """Watch the GPUs of one launch after the other.

    Args:
        gpu_uuids: The GPUs that torch can use, in its order, as MachineFacts has them; empty where unknown.
        watch: Asks the driver; by default NVML, opened with the first launch on a GPU.
        cool_down_s: Longest wait for a hot GPU; 0 for none [s].
        sleep: Waits so many seconds.
    """

    def __init__(
        self,
        gpu_uuids: Sequence[str | None] = (),
        watch: GpuWatch | None = None,
        cool_down_s: float = COOL_DOWN_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._gpu_uuids = gpu_uuids
        self._watch = watch
        self._cool_down_s = cool_down_s
        self._sleep = sleep
        self._last_launch_s = 0.0
        self._first_c: dict[str, int] = {}
        """Temperature of each GPU when the first launch on it was timed."""

    @contextmanager
    def watching(
        self,
        device: str,
        world_size: int,
        on_wait: Callable[[], None] = lambda: None,
        is_hurried: Callable[[], bool] = lambda: False,
    ) -> Iterator[LaunchWatch]:
        """Watch the GPUs of one launch, from before it starts until it has ended.

        Args:
            device: Of the trial: cpu or cuda.
            world_size: Ranks of the trial; rank n takes visible GPU n.
            on_wait: Called while a hot GPU is waited for.
            is_hurried: Whether to stop waiting.
        """
        if device != "cuda":
            yield LaunchWatch(self, is_on_gpus=False)
            return
        launch = LaunchWatch(self, is_on_gpus=True)
        watch = self._opened()
        if watch is None:
            launch.problem = "the Python package nvidia-ml-py is not installed"
        else:
            known = [uuid for uuid in self._gpu_uuids[:world_size] if uuid is not None]
            watch.choose(known if len(known) == world_size else [])
            launch.before, launch.hot = self._cooled(watch, on_wait, is_hurried)
        begin_s = time.monotonic()
        try:
            if watch is not None:
                watch.start()
            yield launch
        finally:
            self._last_launch_s = time.monotonic() - begin_s
            if watch is not None:
                launch.tracks = watch.stop()
                launch.problem = watch.problem
                launch.driver_version = watch.driver_version

    def close(self) -> None:
        """Stop asking."""
        if self._watch is not None:
            self._watch.close()

    def uuid_of(self, rank: int) -> str | None:
        """Give the GPU that a rank takes, as torch told before the sweep; None where unknown."""
        return self._gpu_uuids[rank] if rank < len(self._gpu_uuids) else None

    def remember_first(self, tracks: Sequence[GpuTrack], timed_from_s: float) -> None:
        """Keep how hot each GPU was when its first launch was timed."""
        for track in tracks:
            timed = [sample for sample in track.samples if sample.monotonic_s >= timed_from_s]
            told = [sample.temperature_c for sample in timed if sample.temperature_c is not None]
            if told:
                self._first_c.setdefault(track.uuid, told[0])

    def _opened(self) -> GpuWatch | None:
        """Give what asks the driver; None without the bindings."""
        if self._watch is None:
            try:
                import pynvml
            except ImportError:
                return None
            self._watch = GpuWatch(pynvml)
        return self._watch

    def _cooled(
        self, watch: GpuWatch, on_wait: Callable[[], None], is_hurried: Callable[[], bool]
    ) -> tuple[dict[str, GpuSample], set[str]]:
        """Look at the GPUs; while one is hotter than it was when first timed, wait a while.

        Returns:
            What was told last, and which GPUs are still hot.
        """
        left_s = min(self._cool_down_s, self._last_launch_s)
        while True:
            before = dict(watch.look())
            hot = {uuid for uuid, sample in before.items() if self._is_hot(uuid, sample)}
            if not hot or left_s <= 0 or is_hurried():
                return before, hot
            on_wait()
            self._sleep(min(_LOOK_S, left_s))
            left_s -= _LOOK_S

    def _is_hot(self, uuid: str, sample: GpuSample) -> bool:
        first_c = self._first_c.get(uuid)
        return first_c is not None and sample.temperature_c is not None and sample.temperature_c > first_c + HOT_C


class LaunchWatch:
    """Hold what was told during one launch, and give its columns and flags once it has ended."""

    def __init__(self, telemetry: Telemetry, is_on_gpus: bool) -> None:
        self._telemetry = telemetry
        self._is_on_gpus = is_on_gpus
        self.before: dict[str, GpuSample] = {}
        self.hot: set[str] = set()
        self.tracks: list[GpuTrack] = []
        self.problem: str | None = None
        self.driver_version: str | None = None

    def health(self, end: LaunchEnd) -> Health:
        """Give the columns and flags of the launch that ended so; none of a launch on a CPU."""
        if not self._is_on_gpus:
            return NOT_WATCHED
        tracks = [replace(track, before=self.before.get(track.uuid)) for track in self.tracks]
        ranks = [self._timing(rank, tracks) for rank in end.ranks]
        ours = [track for track in tracks if any(is_same_gpu(track.uuid, rank.gpu_uuid) for rank in ranks)]
        marked = {"hot_start"} if any(track.uuid in self.hot for track in ours) else set()
        health = summarise(ours, ranks, end.pids, marked)
        begins = [rank.timed_from_s for rank in ranks if rank.timed_from_s is not None]
        if begins:
            self._telemetry.remember_first(ours, min(begins))
        known = {"driver_version": self.driver_version} if self.driver_version else {}
        problem = self.problem if "nvml_missing" in health.flags else None
        if problem is None and "nvml_missing" in health.flags:
            problem = _gap_of(tracks, ranks)
        return replace(health, columns={**health.columns, **known, "telemetry_problem": problem})

    def _timing(self, rank: RankEnd, tracks: Sequence[GpuTrack]) -> RankTiming:
        """Read what a rank says of itself; where it said nothing, its GPU is the one it was to take."""
        document: Any = rank.document or {}
        told = document.get("timing") or {}
        uuid = document.get("columns", {}).get("gpu_uuid") or self._telemetry.uuid_of(rank.rank)
        if uuid is None and len(tracks) == 1:
            uuid = tracks[0].uuid
        return RankTiming(gpu_uuid=uuid, **told)


def _gap_of(tracks: Sequence[GpuTrack], ranks: Sequence[RankTiming]) -> str:
    """Say why a figure is missing although NVML refused nothing."""
    if not tracks:
        return "no GPU could be watched"
    used = [[track for track in tracks if is_same_gpu(track.uuid, rank.gpu_uuid)] for rank in ranks]
    if not any(track.samples for track in tracks) and any(track.before for track in tracks):
        return "the launch ended before NVML was asked"
    if not all(used):
        return "NVML does not know the GPU of a rank"
    return "a GPU has no sample in the timed part, or none for a while in it"
