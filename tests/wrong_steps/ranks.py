"""Two ranks as two threads of one process, with what a step needs of `torch.distributed`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from torch import Tensor


class Alone:
    """Stand for `torch.distributed` where nobody joined a group."""

    def is_initialized(self) -> bool:
        """Say that there is no group."""
        return False


class Together:
    """Stand for `torch.distributed` on one of several threads."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._meeting, self._rank = meeting, rank

    def is_initialized(self) -> bool:
        """Say that there is a group."""
        return True

    def get_rank(self) -> int:
        """Give this thread's number."""
        return self._rank

    def get_world_size(self) -> int:
        """Count the threads."""
        return self._meeting.size

    def all_reduce(self, tensor: Tensor) -> None:
        """Add up a tensor over the threads, in place."""
        self._meeting.add_up(self._rank, tensor)


class Meeting:
    """Where threads wait for each other; one that has left frees those that wait for it by an error."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._given: list[Any] = [None] * size
        self._changed = threading.Condition()
        self._arrived = self._round = self._gone = 0

    def add_up(self, rank: int, tensor: Tensor) -> None:
        """Add up what every thread brings."""
        self._given[rank] = tensor.detach().clone()
        self._wait()
        total = sum(self._given[1:], self._given[0].clone())
        self._wait()
        tensor.data.copy_(total)

    def leave(self) -> None:
        """Let nobody wait for a thread that is gone."""
        with self._changed:
            self._gone += 1
            self._changed.notify_all()

    def _wait(self) -> None:
        with self._changed:
            self._arrived += 1
            mine = self._round
            if self._arrived == self.size:
                self._arrived, self._round = 0, mine + 1
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._round != mine or self._gone > 0)
            if self._round == mine:
                raise RuntimeError("another rank has left")


def on_ranks(size: int, job: Callable[[int, Any], Any]) -> list[Any]:
    """Run a job on each rank at once and give what each returned.

    Raises:
        Exception: What the first rank that raised did.
    """
    if size == 1:
        return [job(0, Alone())]
    meeting = Meeting(size)
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            results[rank] = job(rank, Together(meeting, rank))
        except BaseException as error:
            errors.append(error)
        finally:
            meeting.leave()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
