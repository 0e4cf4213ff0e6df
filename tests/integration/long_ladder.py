"""`bench` as a program that gives ranks as good as for ever to end, and says when it asks the first: FILE ARGUMENTS."""

from __future__ import annotations

import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

from bench.cli import main
from bench.launch import kill_ladder
from tests.patience import PATIENCE_S

signal_group = kill_ladder.signal_group


def signal_group_and_say(process: BaseProcess, number: int) -> None:
    """Send the signal; make the file."""
    signal_group(process, number)
    BEGUN.touch()


if __name__ == "__main__":
    BEGUN = Path(sys.argv.pop(1))
    kill_ladder.LADDER = tuple((number, 10.0 * PATIENCE_S) for number, _ in kill_ladder.LADDER)
    kill_ladder.signal_group = signal_group_and_say
    main()
