"""What the system refuses at the start of a process is said with the limit."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import pytest

from bench.errors import EnvironmentFault
from bench.launch.start_guards import limits_named


def test_too_long_a_name_of_the_folder_for_temporary_files_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fork server listens at a socket there, and the kernel takes about a hundred characters."""
    folder = tmp_path / ("long" * 30)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    said = pytest.raises(EnvironmentFault, match=r"temporary files, .*long, is too long. Set TMPDIR")
    with said, limits_named(), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "listener"))
