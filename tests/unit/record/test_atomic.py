"""A file is replaced as a whole, durably, or not at all."""

import errno
import os

import pytest

from bench.errors import StorageError
from bench.record.atomic import read_bytes, write_atomically


def test_the_content_and_the_folder_are_synchronised_before_it_counts(tmp_path, monkeypatch):
    """fsync of the file comes before the rename, fsync of the folder after."""
    calls = []
    real_sync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append("fsync") or real_sync(fd))
    monkeypatch.setattr(os, "replace", lambda *names: calls.append("rename") or real_replace(*names))
    write_atomically(tmp_path / "new" / "file", b"content")
    assert calls == ["fsync", "rename", "fsync"]
    assert (tmp_path / "new" / "file").read_bytes() == b"content"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_refusal_keeps_the_old_file_and_leaves_no_litter(tmp_path, monkeypatch, call, code):
    """Whatever the system refuses becomes a StorageError that names path and need."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(StorageError, match=rf"file: cannot be written \(3 bytes needed\): {os.strerror(code)}"):
        write_atomically(path, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"


def test_reading_what_is_not_there_names_it(tmp_path):
    """A missing file is a StorageError with its path."""
    with pytest.raises(StorageError, match="gone: cannot be read: No such file"):
        read_bytes(tmp_path / "gone")
