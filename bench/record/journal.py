"""Keep the journal of a sweep: one line per event, the truth about what finished.

A line is `{"crc": "<8 hex>", "record": {...}}`, canonical JSON in ASCII, where crc is the CRC-32 of the record's
canonical JSON. It is appended by one write and made durable before `append` returns. Only the driver, holding the
folder's lock, opens a journal for writing.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.errors import StorageError
from bench.record.atomic import read_bytes, storage_error, sync_folder, write_atomically
from bench.record.fault_points import reach

_log = logging.getLogger(__name__)


class Journal:
    """Append records to a journal, after checking every line that is already there."""

    def __init__(self, path: Path) -> None:
        """Open or create the journal at `path`; a torn last line is cut, said so, and counted in `torn_bytes`.

        Raises:
            StorageError: A line that is not the torn last one is broken, or the file cannot be read or written.
        """
        self.path = Path(path)
        self.torn_bytes = 0
        """Bytes of an unfinished last line that opening has cut [bytes]."""
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise storage_error(self.path, "cannot be opened for writing", error) from error
        try:
            self._load()
        except BaseException:
            os.close(self._descriptor)
            raise

    def _load(self) -> None:
        content = read_bytes(self.path)
        self._records, self._size = parse_journal(content, self.path)
        self.torn_bytes = len(content) - self._size
        try:
            if self.torn_bytes:
                _log.warning("%s: cut off an unfinished last line (%d bytes)", self.path, self.torn_bytes)
                os.ftruncate(self._descriptor, self._size)
                os.fsync(self._descriptor)
            sync_folder(self.path.parent)
        except OSError as error:
            raise storage_error(self.path, "cannot be repaired", error) from error

    def records(self) -> tuple[dict[str, Any], ...]:
        """Return every record, oldest first; the first is the header."""
        return tuple(self._records)

    def append(self, record: Mapping[str, Any]) -> None:
        """Append one record, durable on return.

        Raises:
            StorageError: The system refused; the journal is then as it was before, and the record is not in it.
            ValueError: The record is not plain JSON, or holds nan or infinity.
        """
        line = encode_line(record)
        try:
            self._check_in_place()
            reach("journal.write")
            if os.write(self._descriptor, line) != len(line):
                raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} (only part of the line was written)")
            reach("journal.fsync")
            os.fsync(self._descriptor)
            reach("journal.durable")
        except OSError as error:
            # A line that may not survive a power cut must not be read back as if it had.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise storage_error(self.path, f"cannot be appended to ({len(line):,} bytes needed)", error) from error
        self._size += len(line)
        self._records.append(json.loads(line)["record"])

    def _check_in_place(self) -> None:
        """Refuse to write to a file that was deleted or replaced: nobody would ever read it."""
        here, there = os.fstat(self._descriptor), os.stat(self.path)  # noqa: PTH116 - beside fstat
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            raise OSError(errno.ESTALE, "another file has taken its place")

    def close(self) -> None:
        """Close the file; a closed journal still answers `records`."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        """Use the journal in a with statement."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()


def read_journal(path: Path) -> tuple[dict[str, Any], ...]:
    """Read a journal without touching it, leaving out a torn last line; for those who do not hold the lock."""
    return tuple(parse_journal(read_bytes(path), path)[0])


def salvage_journal(path: Path) -> list[int]:
    """Keep the intact lines of a damaged journal, and the damaged file under another name beside it.

    Returns:
        The numbers of the lines that were left out, from 1; none for an intact journal, which is not touched.

    Raises:
        StorageError: The file cannot be read or written, or its first line, the header, is damaged.
    """
    content = read_bytes(path)
    lines = content[: content.rfind(b"\n") + 1].split(b"\n")[:-1]
    damaged = [number for number, line in enumerate(lines, start=1) if _decode_line(line) is None]
    if not damaged:
        return []
    if damaged[0] == 1:
        raise StorageError(
            f"{path}:1: the header is damaged, so the conditions of these rows are unknown. "
            "Start over with --fresh, which keeps this folder."
        )
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    write_atomically(aside, content)
    whole = [line for position, line in enumerate(lines, start=1) if position not in damaged]
    write_atomically(path, b"".join(line + b"\n" for line in whole))
    return damaged


def encode_line(record: Mapping[str, Any]) -> bytes:
    """Encode one record as a line of the journal, newline included."""
    return b'{"crc": "%08x", "record": %s}\n' % (zlib.crc32(canonical := _canonical(record)), canonical)


def parse_journal(content: bytes, path: Path) -> tuple[list[dict[str, Any]], int]:
    """Parse whole lines; return the records and the length of the part that holds them [bytes].

    Bytes after the last newline are a torn line: the write that made them never returned, so nobody was told that
    they were safe. A whole line that is broken was once safe, so its loss is an error, wherever it stands.
    """
    size = content.rfind(b"\n") + 1
    records = []
    for number, line in enumerate(content[:size].split(b"\n")[:-1], start=1):
        record = _decode_line(line)
        if record is None:
            raise StorageError(
                f"{path}:{number}: this line is damaged: its checksum does not match, and it is not an unfinished "
                f"last line. The {number - 1} lines before it are intact. Run with --repair: intact lines are kept, "
                "launches on damaged lines run again."
            )
        records.append(record)
    return records, size


def _decode_line(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)["record"]
        # Comparing with the line we would have written finds every change, also one that JSON would forgive.
        return record if isinstance(record, dict) and encode_line(record) == line + b"\n" else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _canonical(record: Mapping[str, Any]) -> bytes:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")
