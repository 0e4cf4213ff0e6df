"""No file descriptor, process, thread or inode is left: the sweep ends, names the limit, and goes on when there is."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from bench.errors import StorageError
from tests.integration import trivial
from tests.integration.trivial import SIX_TRIALS, same_results
from tests.patience import PATIENCE_S, wait_until
from tests.requirements import require, require_program

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
STRANGER = str(50_000 + os.getpid() % 10_000)
"""Number of a user that runs nothing else: what it may have is what the sweep may have."""


def run_limited(
    folder: Path, before: Sequence[str] = (), limit: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a sweep of six trials in a program of its own, behind `before` and after `limit`."""
    # A library that cannot have its threads ends the interpreter before anything of ours runs.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(["", str(ROOT), *sys.path])}
    return subprocess.run(
        [*before, sys.executable, "-m", "tests.integration.limited_sweep", str(folder)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        preexec_fn=limit,
        timeout=PATIENCE_S,
    )


def as_stranger() -> list[str]:
    """Give the command to run as a user whose limit of processes holds, which it does not for root.

    It may read and write every file as root may, so that neither the interpreter nor the folder has to be made open.
    """
    if os.getuid() != 0:
        return []
    may = "-all,+dac_override,+dac_read_search"
    command = [require_program("setpriv"), f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    command += [f"--inh-caps={may}", f"--ambient-caps={may}", "--bounding-set=-sys_resource,-sys_admin"]
    works = subprocess.run([*command, "true"], capture_output=True).returncode == 0
    require("setpriv", None if works else "it may not change the user here")
    return command


def limit_processes(number: int) -> Callable[[], None]:
    """Limit the processes and threads of the user of this process, from now on."""
    return lambda: resource.setrlimit(resource.RLIMIT_NPROC, (number, number))


def wait_until_gone() -> None:
    """Wait until nothing of an earlier sweep of the stranger's is left, not even dead and unreaped: that counts too."""

    def is_gone() -> bool:
        return not any(int(STRANGER) in process.info["uids"] for process in psutil.process_iter(["uids"]))

    wait_until(is_gone, "nothing of it is left")


def test_without_a_process_left_the_limit_is_named_whatever_could_not_start(tmp_path: Path, finished: Path) -> None:
    """F33: first no thread, then no server, then no rank, until there is enough; each limit is exit 5."""
    stranger = as_stranger()
    codes = []
    for number in range(1, 20):
        folder = tmp_path / f"results-{number}"
        wait_until_gone()
        done = run_limited(folder, stranger, limit_processes(number))
        codes.append(done.returncode)
        if done.returncode == 0:
            break
        assert done.returncode == 5, done.stderr
        assert f"this user may have {number} processes and threads (ulimit -u)" in done.stderr
        assert trivial.run(SIX_TRIALS, folder).launched == 6, "nothing was said about a trial"
    assert codes[-1] == 0
    assert len(codes) > 3
    same_results(folder, finished)


@pytest.mark.parametrize("number", [5, 6, 8, 9, 11, 12])
def test_without_a_file_descriptor_left_the_limit_is_named(tmp_path: Path, finished: Path, number: int) -> None:
    """F33: whatever wants the last one, the journal, the corpus, a pipe or the server, it is exit 4 or 5."""
    folder = tmp_path / "results"
    done = run_limited(folder, limit=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number)))
    assert done.returncode in (4, 5), done.stderr
    assert "Too many open files" in done.stderr or f"{number} open files (ulimit -n)" in done.stderr
    assert trivial.run(SIX_TRIALS, folder).launched == 6, "nothing was said about a trial"
    same_results(folder, finished)


@pytest.fixture
def few_inodes(tmp_path: Path) -> Iterator[Callable[[int], None]]:
    """Give a disk with room and a way to set how many inodes it has."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=2", "tmpfs", str(disk)]
    mounted = os.getuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0
    require("mount", None if mounted else "only root can mount, where the container allows it")
    yield lambda number: _remount(disk, number)
    subprocess.run(["umount", "-l", str(disk)], check=True)


def _remount(disk: Path, number: int) -> None:
    subprocess.run(["mount", "-o", f"remount,nr_inodes={number}", str(disk)], check=True)


def test_without_an_inode_left_the_disk_is_not_called_full(
    tmp_path: Path, finished: Path, few_inodes: Callable[[int], None]
) -> None:
    """F33: exit 4 with the path, for each file of the first launches that finds none, and it goes on with more."""
    folder = tmp_path / "disk" / "results"
    for number in range(3, 22):
        few_inodes(number)
        with pytest.raises(StorageError, match=rf"{folder}.*all {number} inodes are used"):
            trivial.run(SIX_TRIALS, folder)
        few_inodes(1000)
        if number < 21:
            shutil.rmtree(folder, ignore_errors=True)
    kept = len(trivial.finished_of(folder))
    assert kept > 0
    assert trivial.run(SIX_TRIALS, folder).launched == 6 - kept
    same_results(folder, finished)


@pytest.mark.parametrize("number", [11, 12])
def test_rank_without_an_inode_says_nothing_about_its_trial(
    tmp_path: Path, finished: Path, few_inodes: Callable[[int], None], number: int
) -> None:
    """F33: it has a log, but no room for its stacks or its answer: the launch is not recorded as failed."""
    folder = tmp_path / "disk" / "results"
    few_inodes(number)
    done = run_limited(folder)
    assert done.returncode == 4
    assert "rank 0 could not write" in done.stderr
    few_inodes(1000)
    assert trivial.run(SIX_TRIALS, folder).launched == 6
    same_results(folder, finished)
