"""A few ranks that live as long as the test session and run one small job after another in one process group."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[1]


class RankError(Exception):
    """A rank raised; the text is its own."""


class RankPool:
    """Start ranks once; every wait has a limit, and a rank that does not answer ends the pool."""

    def __init__(self, size: int = 3) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._connections: list[Connection] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        for rank in range(size):
            ours, theirs = Pipe()
            arguments = [rank, size, Path(self._folder.name) / "rendezvous", theirs.fileno(), os.getpid()]
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.rank_main", *map(str, arguments)],
                    cwd=ROOT,
                    pass_fds=[theirs.fileno()],
                )
            )
            theirs.close()
            self._connections.append(ours)
        self._collect(size)

    def run(self, job: str, world: int, per_rank: list[dict[str, Any]] | None = None, **arguments: Any) -> list[Any]:
        """Run a function of `tests.rank_jobs` on the first ranks and give what each returned.

        Raises:
            RankError: A rank raised; all answered.
        """
        for rank, connection in enumerate(self._connections[:world]):
            connection.send_bytes(pickle.dumps((job, world, {**arguments, **(per_rank[rank] if per_rank else {})})))
        return self._collect(world)

    def close(self) -> None:
        """End the ranks, by force where they do not listen."""
        for connection in self._connections:
            try:
                connection.send_bytes(pickle.dumps(None))
            except OSError:
                continue
        for process in self._processes:
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(PATIENCE_S)
        for connection in self._connections:
            connection.close()
        self._folder.cleanup()

    def _collect(self, world: int) -> list[Any]:
        answers, errors = [], []
        for rank, connection in enumerate(self._connections[:world]):
            if not connection.poll(PATIENCE_S):
                for process in self._processes:
                    process.kill()
                self.close()
                raise TimeoutError(f"rank {rank} did not answer within {PATIENCE_S} s")
            kind, value = pickle.loads(connection.recv_bytes())
            answers.append(value)
            if kind == "error":
                errors.append(f"rank {rank}: {value}")
        if errors:
            raise RankError("\n".join(errors))
        return answers
