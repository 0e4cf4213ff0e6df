"""Whose processes are on a GPU, and what ours hold outside torch's allocator. Pure: no NVML, no torch.

In a container NVML may know processes under the ids of the host, or not list them. So ids are trusted only where one of
ours appears under its own id and was not there before the launch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from bench.telemetry.samples import GpuSample, GpuTrack, RankTiming


def foreign_processes(track: GpuTrack, own_pids: Collection[int], ranks_on_gpu: int) -> int | None:
    """Count the processes of others on a GPU, the most at one sample of the launch or before it.

    Args:
        track: The GPU.
        own_pids: Process ids that the ranks have here.
        ranks_on_gpu: Ranks of the launch that compute on it.

    Returns:
        The count; None where the driver lists no process at all, not even ours.
    """
    lists = [_pids(sample) for sample in track.samples if sample.processes is not None]
    before = _pids(track.before)
    if not before and not any(lists):
        return None
    if _ids_are_ours(track, own_pids):
        return max(len(pids - {*own_pids}) for pids in [before, *lists])
    return max([len(before), *(len(pids) - ranks_on_gpu for pids in lists)])


def outside_torch(ranks: Sequence[tuple[RankTiming, GpuTrack | None]], own_pids: Collection[int]) -> dict[str, Any]:
    """Give the columns of memory outside torch: contexts, NCCL's buffers, libraries; of the rank that has most.

    Held against what the caching allocator holds at the end of the timed part, and told by the samples of the time in
    which it held no more than that: what comes before and after, such as updates under a witness, may hold more.
    By process where the driver tells the
    rank's own bytes; else by device: its use less that before the launch, if the rank is alone there by what the driver
    lists. The most of all samples counts: the last may be of a process that is ending.
    """
    by_process = [_by_process(rank, track, own_pids) for rank, track in ranks]
    if ranks and None not in by_process:
        return _columns(by_process, "process")
    is_alone = len({id(track) for _, track in ranks}) == len(ranks)
    by_device = [_by_device(rank, track, own_pids) if is_alone else None for rank, track in ranks]
    return _columns(by_device, "device") if ranks and None not in by_device else _columns([], None)


def _columns(outside: Sequence[int | None], method: str | None) -> dict[str, Any]:
    known = [count for count in outside if count is not None]
    return {"outside_torch_bytes": max(known, default=None), "outside_torch_method": method}


def _by_process(rank: RankTiming, track: GpuTrack | None, own_pids: Collection[int]) -> int | None:
    if track is None or rank.reserved_bytes is None or not _ids_are_ours(track, own_pids):
        return None
    held = [
        process.used_bytes
        for sample in _while_held(rank, track)
        for process in sample.processes or ()
        if process.pid == rank.pid and process.used_bytes is not None
    ]
    return _beyond(max(held), rank.reserved_bytes) if held else None


def _by_device(rank: RankTiming, track: GpuTrack | None, own_pids: Collection[int]) -> int | None:
    if track is None or rank.reserved_bytes is None or track.before is None or track.before.used_bytes is None:
        return None
    if foreign_processes(track, own_pids, 1) != 0:
        return None  # a missing list may hide other processes: the bound that the rank found itself stands in
    held = [sample.used_bytes for sample in _while_held(rank, track) if sample.used_bytes is not None]
    return _beyond(max(held) - track.before.used_bytes, rank.reserved_bytes) if held else None


def _beyond(held_bytes: int, reserved_bytes: int) -> int | None:
    """Subtract; less than nothing cannot be, so then what the driver told was about something else."""
    return held_bytes - reserved_bytes if held_bytes >= reserved_bytes else None


def _while_held(rank: RankTiming, track: GpuTrack) -> list[GpuSample]:
    """Give the samples of the time in which the allocator held no more than at the end of the timed part, in order."""
    assert rank.held_from_s is not None, "only what was timed is asked for"
    assert rank.held_to_s is not None, "only what was timed is asked for"
    return [sample for sample in track.samples if rank.held_from_s <= sample.monotonic_s <= rank.held_to_s]


def _ids_are_ours(track: GpuTrack, own_pids: Collection[int]) -> bool:
    """Tell whether the driver lists processes under the ids that they have here."""
    seen = {pid for sample in track.samples for pid in _pids(sample)}
    return bool((seen - _pids(track.before)) & {*own_pids})


def _pids(sample: GpuSample | None) -> set[int]:
    return set() if sample is None else {process.pid for process in sample.processes or ()}
