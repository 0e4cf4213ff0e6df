"""The errors a user can meet, and the exit code of each.

    BenchError            2   usage or bad input
    |- SweepFileError     2   every fault of a sweep file at once
    |- LockedError        3   another sweep holds the folder
    |- StorageError       4   results cannot be written or read
    `- EnvironmentFault   5   the machine lacks what was asked for

A message says where, what with its value, the limit, and what to do. Raised anywhere, printed in one place: the
command line.
"""

from __future__ import annotations

from collections.abc import Sequence


class BenchError(Exception):
    """Report bad input or usage; the message is meant for the user as it stands."""

    exit_code = 2


class SweepFileError(BenchError):
    """Report every fault of a sweep file together, one line each."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))


class LockedError(BenchError):
    """Report that another sweep is writing this results folder."""

    exit_code = 3


class StorageError(BenchError):
    """Report that results could not be written, or are damaged."""

    exit_code = 4


class EnvironmentFault(BenchError):
    """Report that the machine lacks what was asked for, such as a GPU that torch can use."""

    exit_code = 5
