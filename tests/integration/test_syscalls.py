"""The driver dies, or is refused, at each single write, fsync and rename that it asks the kernel for, by strace.

Where the points that the code names itself may leave one out, the kernel does not.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.sweep.trial import Sweep
from tests.integration import trivial
from tests.patience import PATIENCE_S, wait_until
from tests.requirements import require, require_program

pytestmark = pytest.mark.slow

_PR_SET_PTRACER = 0x59616D61
SHORT = trivial.sweep_of({"seed": [0, 1]})
"""Two trials."""
LONG = trivial.sweep_of({"seed": [0, 6], "micro_batch_size": [1, 3, 4]})
"""Four trials, of which some fail, and two skips."""
CALLS = {"write": "write", "fsync": "fsync,fdatasync", "rename": "/^rename"}
"""Name to the set of system calls, as strace has it; the rename of a file differs between processors."""


@pytest.fixture(scope="module")
def strace() -> str:
    """Find a strace that may trace here."""
    path = require_program("strace")
    done = subprocess.run([path, "-e", "inject=write:error=EIO:when=1", "echo"], capture_output=True)
    require("strace", None if b"INJECTED" in done.stderr else "this container does not let processes be traced")
    return path


def run_traced(strace: str, sweep: Sweep, folder: Path, *options: str) -> int:
    """Run a sweep in a fork of this process under strace; give its exit code: 0, of the error, or of the signal."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # numpy has threads; the fork needs none of them
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            # Where Yama guards processes, only a parent may trace without this consent.
            ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
            os.read(reader, 1)
            trivial.run(sweep, folder)
            code = 0
        except BenchError as error:
            code = error.exit_code
        finally:
            os._exit(code)
    with subprocess.Popen([strace, "-qq", *options, "-p", str(pid)], stderr=subprocess.DEVNULL) as tracer:
        status = Path(f"/proc/{pid}/status")
        wait_until(lambda: "TracerPid:\t0" not in status.read_text(), "strace comes", pause_s=0.002)
        os.write(writer, b"go")
        code = trivial.wait_for(pid)
        tracer.wait(PATIENCE_S)
    os.close(reader)
    os.close(writer)
    return code


def calls_of(strace: str, sweep: Sweep, folder: Path) -> Iterator[tuple[str, int]]:
    """Run a sweep undisturbed, and list each call that it made, numbered from 1 by its kind."""
    for name, calls in CALLS.items():
        undisturbed, log = folder.with_name(f"undisturbed-{name}"), folder.with_name(f"{name}.log")
        assert run_traced(strace, sweep, undisturbed, "-e", f"trace={calls}", "-e", "signal=none", "-o", str(log)) == 0
        for number in range(1, len(log.read_text().splitlines()) + 1):
            yield name, number


def disturb(strace: str, sweep: Sweep, tmp_path: Path, what: dict[str, tuple[str, ...]]) -> int:
    """Do it at each call, go on undisturbed, and compare with an undisturbed run; count how often."""
    trivial.run(sweep, tmp_path / "undisturbed")
    done = 0
    for name, number in calls_of(strace, sweep, tmp_path / "any"):
        for action in what[name]:
            folder = tmp_path / f"{name}-{number}-{action}"
            code = run_traced(
                strace, sweep, folder, "-e", f"inject={CALLS[name]}:{action}:when={number}", "-o", "/dev/null"
            )
            assert code == (-signal.SIGKILL if "KILL" in action else 4), f"{action} at {name} {number}"
            kept = trivial.finished_of(folder)
            trivial.run(sweep, folder)
            assert kept <= trivial.finished_of(folder), "a finished launch was lost"
            trivial.check_against(tmp_path / "undisturbed", folder)
            assert not list(folder.rglob("*.tmp")) or "KILL" in action
            done += 1
    return done


KILLED = dict.fromkeys(CALLS, ("signal=SIGKILL",))
REFUSED = {"write": ("error=ENOSPC",), "fsync": ("error=EIO",), "rename": ("error=EIO",)}
REFUSED_IN_EVERY_WAY = dict.fromkeys(CALLS, ("error=ENOSPC", "error=EIO", "error=EDQUOT", "error=EROFS"))


@pytest.mark.parametrize("what", [KILLED, REFUSED], ids=["killed", "refused"])
def test_driver_disturbed_at_each_call_ends_as_if_undisturbed(
    strace: str, tmp_path: Path, what: dict[str, tuple[str, ...]]
) -> None:
    """R1, F18, F21, F22: of a sweep of two trials; `make soak` does a longer one."""
    assert disturb(strace, SHORT, tmp_path, what) > 30


def test_driver_asks_the_kernel_to_make_everything_durable(strace: str, tmp_path: Path) -> None:
    """F22: a file before it gets its name, its name before the journal tells of it, a line before anything follows."""
    folder, log = tmp_path / "results", tmp_path / "log"
    calls = ",".join(CALLS.values()).replace("/^rename", "rename,renameat,renameat2")
    assert run_traced(strace, SHORT, folder, "-y", "-e", f"trace=?{calls.replace(',', ',?')}", "-o", str(log)) == 0
    journal, dirty, named = str(folder / "journal.jsonl"), set(), set()
    lines = renames = 0
    for line in log.read_text().splitlines():
        call, _, rest = line.partition("(")
        paths = re.findall(r'[<"](/[^>"]*)[>"]', rest)
        if call.startswith("rename"):
            assert paths[-2] not in dirty, f"{paths[-2]} got its name before it was durable"
            named.add(str(Path(paths[-1]).parent))
            renames += 1
        elif call == "write" and paths:
            assert journal not in dirty, "a line was followed by something before it was durable"
            assert paths[0] != journal or not named, f"names in {named} were told of before they were durable"
            dirty |= {paths[0]} if "/logs/" not in paths[0] and not paths[0].endswith(".lease") else set()
            lines += paths[0] == journal
        elif paths:
            dirty.discard(paths[0])
            named.discard(paths[0])
    assert not dirty
    assert not named
    assert lines >= 7, "header, machine, plan, and two for each launch"
    assert renames >= 8, "two parts for each launch, sweep, environment and the two tables"


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("what", [KILLED, REFUSED_IN_EVERY_WAY], ids=["killed", "refused"])
def test_driver_of_a_longer_sweep_disturbed_at_each_call_ends_as_if_undisturbed(
    strace: str, tmp_path: Path, what: dict[str, tuple[str, ...]]
) -> None:
    """R1, F18, F21, F22: with failures and skips, and every refusal that a disk may give."""
    assert disturb(strace, LONG, tmp_path, what) > 60
