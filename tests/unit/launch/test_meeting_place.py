"""The ranks of a launch meet in a folder of this node, where files can be locked, and nothing of it stays."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from bench.errors import EnvironmentFault, StorageError
from bench.launch import meeting_place as module
from bench.launch.meeting_place import meeting_place, remove_leftovers
from bench.record.paths import LaunchPaths

KILLED = """
import os, signal, sys
from pathlib import Path
from bench.launch.meeting_place import meeting_place
from bench.record.paths import LaunchPaths

with meeting_place(LaunchPaths(Path(sys.argv[1])), 2):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LaunchPaths:
    """Give the files of a launch; temporary files lie in a folder beside it."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "launch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return LaunchPaths(tmp_path / "launch")


def _place(paths: LaunchPaths) -> Path:
    return Path(paths.rendezvous.read_text()).parent


@pytest.mark.parametrize("ending", [None, KeyboardInterrupt])
def test_place_is_this_users_alone_and_gone_after_the_launch(
    paths: LaunchPaths, ending: type[BaseException] | None
) -> None:
    """However the launch ends."""
    try:
        with meeting_place(paths, 2):
            place = _place(paths)
            assert place.parent == paths.folder.parent / "temporary"
            assert place.stat().st_mode & 0o777 == 0o700
            (place / "store").touch()
            if ending is not None:
                raise ending
    except KeyboardInterrupt:
        pass
    assert not place.exists()


def test_one_rank_meets_nobody(paths: LaunchPaths) -> None:
    """Nothing is written for it."""
    with meeting_place(paths, 1):
        assert not paths.rendezvous.exists()


def test_place_that_a_killed_driver_left_is_removed_and_no_other(paths: LaunchPaths) -> None:
    """The kernel frees the lock of the dead, and a living driver keeps its own."""
    command = [sys.executable, "-c", KILLED, str(paths.folder)]
    died = subprocess.run(command, env=os.environ | {"TMPDIR": tempfile.gettempdir()}, check=False)
    assert died.returncode == -signal.SIGKILL
    left = _place(paths)
    assert left.is_dir()
    with meeting_place(paths, 2):
        remove_leftovers()
        assert not left.exists()
        assert _place(paths).is_dir()


def test_folder_where_files_cannot_be_locked_is_passed_over(
    paths: LaunchPaths, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """TMPDIR too may lie on a cluster's file system."""
    (tmp_path / "local").mkdir()
    monkeypatch.setattr(module, "_parents", lambda: [tmp_path / "temporary", tmp_path / "none", tmp_path / "local"])
    flock = fcntl.flock

    def refused_below_temporary(descriptor: int, operation: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(tmp_path / "temporary"):
            raise OSError(38, os.strerror(38))
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", refused_below_temporary)
    with meeting_place(paths, 2):
        assert _place(paths).parent == tmp_path / "local"
        assert list((tmp_path / "temporary").iterdir()) == []


def test_without_any_place_the_fault_names_the_folders_and_the_way_out(
    paths: LaunchPaths, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No trial is blamed for it."""
    monkeypatch.setattr(module, "_parents", lambda: [tmp_path / "none"])
    with pytest.raises(EnvironmentFault, match=r"none: No such file or directory.*Set TMPDIR"), meeting_place(paths, 2):
        pass


def test_place_that_cannot_be_told_to_the_ranks_is_gone(paths: LaunchPaths, tmp_path: Path) -> None:
    """The folder of the launch cannot be written: said as such."""
    missing: Any = LaunchPaths(tmp_path / "missing")
    with pytest.raises(StorageError, match="rendezvous cannot be written"), meeting_place(missing, 2):
        pass
    assert list((tmp_path / "temporary").iterdir()) == []
