"""The command's standard streams: there, whatever the caller closed, and patient with readers that go away.

A reader that went away (`| head`) is no error: what it does not read is not written, and the command goes on to its own
exit code. A place that takes no more (a full disk) is one, for the data on stdout. What is meant for people, on stderr,
is never worth an end.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from bench.errors import StorageError


def open_closed_descriptors() -> None:
    """Open the null device as each of the descriptors 0, 1 and 2 that the caller closed (`2>&-`).

    Otherwise the next file or pipe takes the number, and a process that is started takes it for its standard stream.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(
                os.open(os.devnull, os.O_RDWR), True
            )  # it gets the lowest free number, which is this one


class _Patient(io.RawIOBase):
    """Write to a descriptor; once that is refused, write nothing more."""

    def __init__(self, descriptor: int, is_for_people: bool) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._is_for_people = is_for_people
        self._is_refused = False
        self.refusal: OSError | None = None
        """Why data could not be written; None for a reader that went away."""

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        """Write, or do as if."""
        if not self._is_refused:
            try:
                return os.write(self._descriptor, data)
            except BrokenPipeError:
                self._is_refused = True
            except OSError as error:
                self._is_refused = True
                if not self._is_for_people:
                    self.refusal = error
                    raise
        return len(data)

    def writable(self) -> bool:
        """Say yes."""
        return True

    def fileno(self) -> int:
        """Give the descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Tell whether it is a terminal."""
        return os.isatty(self._descriptor)


@contextmanager
def patient_streams() -> Iterator[None]:
    """Let everything inside write to patient streams in place of stdout and stderr, as far as these are descriptors."""
    open_closed_descriptors()
    before = (sys.stdin, sys.stdout, sys.stderr)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    if _is_of(sys.stdout, 1):
        data = _Patient(1, is_for_people=False)
        sys.stdout = _text(data, sys.stdout, data.isatty())
    if _is_of(sys.stderr, 2):
        sys.stderr = _text(_Patient(2, is_for_people=True), sys.stderr, True)
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


@contextmanager
def data_written() -> Iterator[None]:
    """See that what is written to stdout inside arrives; to be used inside `patient_streams`.

    Raises:
        StorageError: It does not.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
        if isinstance(raw, _Patient) and error is raw.refusal:
            raise StorageError(f"stdout cannot be written: {error.strerror}.") from error
        raise


def _is_of(stream: TextIO | None, descriptor: int) -> bool:
    """Tell whether a stream is the one of this descriptor, and nobody's stand-in; None is one that was closed."""
    if stream is None:
        return True
    try:
        return stream.fileno() == descriptor
    except (OSError, ValueError):
        return False


def _text(raw: _Patient, stream: TextIO | None, by_line: bool) -> TextIO:
    """Make the text stream, encoded as the one in whose place it stands."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    errors = getattr(stream, "errors", None) or "backslashreplace"
    return io.TextIOWrapper(io.BufferedWriter(cast(io.RawIOBase, raw)), encoding, errors, line_buffering=by_line)
