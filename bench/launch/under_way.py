"""One running launch: wait for its ranks with a limit on every wait, and end those that do not end themselves."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from bench.launch.files import cap_log, last_line, read_document, read_stacks
from bench.launch.heartbeat import Beat, read_beat
from bench.launch.interrupts import Interrupts
from bench.launch.kill_ladder import dump_stacks, end_ranks, is_running, signal_group
from bench.launch.outcome import WITH_STACKS, RankEnd
from bench.launch.process_table import exit_code_of_dead, is_stopped
from bench.launch.watchdog import LaunchLimits, Stopped, Watchdog
from bench.record.paths import LaunchPaths

_POLL_S = 0.2
_PEER_GRACE_S = 3.0
"""After one rank ended badly, how long the others may take to end by themselves."""
_SUSPENDED_S = 2.0
"""A poll that comes so late means that this process was stopped, or the machine slept."""
_REPORT_S = 2.0
"""How long a fork server may take to report the end of a rank; one that takes longer is stalled."""
_NOT_STARTED: Mapping[int, Beat | None] = {-1: None}


class LaunchUnderWay:
    """Hold one launch under way: its processes, and what was seen of them."""

    def __init__(
        self, paths: LaunchPaths, limits: LaunchLimits, on_wait: Callable[[], None], interrupts: Interrupts
    ) -> None:
        self.paths = paths
        self.processes: dict[int, BaseProcess] = {}
        self.stopped: Stopped | None = None
        self.flags: list[str] = []
        self._on_wait = on_wait
        self._interrupts = interrupts
        self._ended_here: set[int] = set()
        self._said_before: dict[int, dict[str, Any] | None] = {}
        self._beat_before: dict[int, Beat | None] = {}
        self._watchdog = Watchdog(limits, time.monotonic())
        self._last_look_s = time.monotonic()
        self._dead_since_s: dict[int, float] = {}
        self._unreported: dict[int, int | None] = {}

    def is_enough(self) -> bool:
        """Tell, while a fork server is waited for, whether to wait no longer; `stopped` then says why."""
        if self._interrupts.suspend_asked:
            self._suspend()
        self.stopped = self._look(_NOT_STARTED)
        return self.stopped is not None

    def may_start_again(self) -> bool:
        """Allow the start limit once more; False where another limit is over, or a signal came."""
        before, self.stopped = self.stopped, None
        self._watchdog.start_again(time.monotonic())
        if self.is_enough():
            self.stopped = before
            return False
        self._ended_here.clear()
        return True

    def blame_server(self) -> None:
        """Say of a launch that took too long that its ranks were never started."""
        self._ended_here |= set(self.processes)
        if self.stopped is not None and self.stopped.outcome in WITH_STACKS:
            reason = f"the fork server did not start the ranks: {self.stopped.reason}"
            self.stopped = Stopped(self.stopped.outcome, reason)
            self._flag("server_stalled")

    @property
    def is_server_stalled(self) -> bool:
        """Tell whether a rank has ended and its fork server does not report it; to be asked after `end`."""
        return bool(self._unreported)

    def watch(self) -> None:
        """Wait until all ranks ended, one ended badly and the others had their grace, or the driver has had enough."""
        bad_since: float | None = None
        self._last_look_s = time.monotonic()
        while True:
            alive = {rank: process for rank, process in self.processes.items() if not self._has_ended(rank)}
            if not alive:
                return
            now_s = time.monotonic()
            if any(self._ended_badly(rank) for rank in self.processes if rank not in alive):
                bad_since = now_s if bad_since is None else bad_since
                if now_s - bad_since > _PEER_GRACE_S:
                    return
            self.stopped = self._look(self._beats(alive))
            if self.stopped is not None:
                return
            if self._interrupts.suspend_asked:
                self._suspend()
                continue
            wait([process.sentinel for process in alive.values()], timeout=_POLL_S)
            for rank in self.processes:
                cap_log(self.paths.rank_log(rank))
            self._on_wait()

    def end(self) -> None:
        """End what still runs, with a dump of its stacks where it hangs or takes too long."""
        alive = {rank: process for rank, process in self.processes.items() if is_running(process)}
        self._ended_here |= set(alive)
        # What a rank says and does while it is being ended is never the cause.
        self._said_before = {rank: read_document(self.paths, rank) for rank in alive}
        self._beat_before = {rank: read_beat(self.paths.heartbeat(rank)) for rank in alive}
        if self.stopped is not None and self.stopped.outcome in WITH_STACKS:
            stopped = [rank for rank, process in alive.items() if process.pid and is_stopped(process.pid)]
            if stopped:
                reason = f"rank {stopped[0]} was stopped from outside (SIGSTOP): {self.stopped.reason}"
                self.stopped = Stopped(self.stopped.outcome, reason, stopped[0])
            dump_stacks(alive)
        end_ranks(self.processes, lambda: self._interrupts.hurry)
        deadline_s = time.monotonic() + _REPORT_S
        while late := [
            process for process in self.processes.values() if process.is_alive() and not is_running(process)
        ]:
            if time.monotonic() > deadline_s:
                break
            wait([process.sentinel for process in late], timeout=_POLL_S)
        for rank, process in self.processes.items():
            if process in late:
                self._note_unreported(rank)

    def pids(self) -> tuple[int, ...]:
        """List the process ids that the ranks have or had; to be asked before `release`."""
        return tuple(process.pid for process in self.processes.values() if process.pid is not None)

    def release(self, ranks: Sequence[int]) -> tuple[RankEnd, ...]:
        """State how each rank ended, and let go of the processes."""
        ends = []
        for rank in ranks:
            process = self.processes.get(rank)
            code = None if process is None else process.exitcode
            if process is not None and code is not None:
                process.close()
            code = self._unreported.get(rank, code)
            ended_here = rank in self._ended_here or process is None
            ends.append(
                RankEnd(
                    rank,
                    code,
                    self._said_before.get(rank) if ended_here else read_document(self.paths, rank),
                    self._beat_before.get(rank) if ended_here else read_beat(self.paths.heartbeat(rank)),
                    last_line(self.paths.rank_log(rank)),
                    ended_here,
                    read_stacks(self.paths, rank),
                )
            )
        return tuple(ends)

    def _ended_badly(self, rank: int) -> bool:
        """Tell whether an ended rank failed, or left without a result: its peers wait for it in vain."""
        code = self._unreported.get(rank, self.processes[rank].exitcode)
        return code != 0 or not self.paths.rank_file(rank).exists()

    def _has_ended(self, rank: int) -> bool:
        """Tell whether a rank has ended: by its server's report, or without one after a while by the kernel's word."""
        process = self.processes[rank]
        if rank in self._unreported or process.exitcode is not None:
            return True
        if is_running(process):
            return False
        since_s = self._dead_since_s.setdefault(rank, time.monotonic())
        if time.monotonic() - since_s <= _REPORT_S:
            return False
        self._note_unreported(rank)
        return True

    def _note_unreported(self, rank: int) -> None:
        """Keep how a rank ended, as the kernel says: its server does not."""
        pid = self.processes[rank].pid
        self._unreported.setdefault(rank, None if pid is None else exit_code_of_dead(pid))
        self._flag("server_stalled")

    def _look(self, beats: Mapping[int, Beat | None]) -> Stopped | None:
        """Say why to stop the launch now; None lets it go on."""
        now_s = time.monotonic()
        if now_s - self._last_look_s > _SUSPENDED_S:
            self._watchdog.excuse(now_s - self._last_look_s, now_s)
            self._flag("suspended")
        self._last_look_s = now_s
        return self._interrupted() or self._watchdog.look(beats, now_s)

    def _beats(self, ranks: Mapping[int, BaseProcess]) -> dict[int, Beat | None]:
        return {rank: read_beat(self.paths.heartbeat(rank)) for rank in ranks}

    def _interrupted(self) -> Stopped | None:
        number = self._interrupts.number
        return None if number is None else Stopped("interrupted", "the sweep was interrupted")

    def _suspend(self) -> None:
        """Stop the ranks, then this process; go on with both when the terminal says so."""
        for process in self.processes.values():
            signal_group(process, signal.SIGSTOP)
        self._interrupts.suspend()
        for process in self.processes.values():
            signal_group(process, signal.SIGCONT)
        self._flag("suspended")

    def _flag(self, name: str) -> None:
        if name not in self.flags:
            self.flags.append(name)
