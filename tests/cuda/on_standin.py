"""Run a function of a test module in processes of their own that have the stand-in GPU; pytest's own stays clean."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.standin import environment
from tests.patience import wait_until

ROOT = Path(__file__).resolve().parents[2]
GIB = 1024**3
MIB = 1024**2


@dataclass(frozen=True)
class Ended:
    """State how one process ended."""

    code: int
    """Exit code; negative: the signal."""
    value: Any
    """What the function returned, through JSON; None where it returned nothing."""
    stderr: str


def run_ranks(
    work: Callable[..., Any],
    *arguments: Any,
    ranks: int,
    variables: Mapping[str, str] | None = None,
    may_fail: bool = False,
    kill_when: Callable[[], bool] = lambda: False,
    kill_with_first: bool = False,
    **switches: Any,
) -> list[Ended]:
    """Run `work(*arguments)` in so many processes at once, with RANK, WORLD_SIZE and STORE in the environment.

    Args:
        work: a function of an importable module; imports torch itself.
        arguments: for each process, through JSON.
        ranks: number of processes.
        variables: more of the environment.
        may_fail: do not assert that each ends with 0.
        kill_when: asked again and again; once it is true, those that still run are killed (exit code -9).
        kill_with_first: kill the others when rank 0 has ended.
        switches: of `bench.standin.environment`.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        told = environment(**{"ledger": folder / "ledger", **switches})
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("STANDIN_", "CUDA_"))}
        common = {**kept, **told, "STORE": f"file://{folder}/store", "WORLD_SIZE": str(ranks), **(variables or {})}
        started = [_start(work, arguments, folder / str(rank), {**common, "RANK": str(rank)}) for rank in range(ranks)]
        _wait(started, kill_when, kill_with_first)
        ended = [_end(process, folder / str(rank)) for rank, process in enumerate(started)]
    if not may_fail:
        assert [one.code for one in ended] == [0] * ranks, "\n".join(one.stderr[-3000:] for one in ended)
    return ended


def run(work: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """Run in one process; give what it returned."""
    return run_ranks(work, *arguments, ranks=1, **settings)[0].value


def _start(
    work: Callable[..., Any], arguments: Sequence[Any], out: Path, variables: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    out.with_suffix(".in").write_text(json.dumps([work.__module__, work.__name__, arguments]), encoding="utf-8")
    command = [sys.executable, "-m", "tests.cuda.on_standin", str(out)]
    with out.with_suffix(".err").open("wb") as stderr:
        return subprocess.Popen(command, cwd=ROOT, env=dict(variables), stderr=stderr)


def _wait(started: Sequence[subprocess.Popen[bytes]], kill_when: Callable[[], bool], kill_with_first: bool) -> None:
    def is_enough() -> bool:
        has_ended = [process.poll() is not None for process in started]
        return all(has_ended) or (kill_with_first and has_ended[0]) or kill_when()

    try:
        wait_until(is_enough, "the processes end", pause_s=0.05)
    finally:
        for process in started:
            process.kill()
            process.wait()


def _end(process: subprocess.Popen[bytes], out: Path) -> Ended:
    told = out.with_suffix(".json")
    value = json.loads(told.read_text(encoding="utf-8")) if told.exists() else None
    return Ended(process.returncode, value, out.with_suffix(".err").read_text(encoding="utf-8", errors="replace"))


def _main(out: Path) -> None:
    """Be the child: call the function, write what it gives, leave as a rank does."""
    import importlib

    module, name, arguments = json.loads(out.with_suffix(".in").read_text(encoding="utf-8"))
    value = getattr(importlib.import_module(module), name)(*arguments)
    out.with_suffix(".json").write_text(json.dumps(value), encoding="utf-8")
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
