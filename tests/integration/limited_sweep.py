"""Run six trivial trials as a program, for tests that limit what its process may have: FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.errors import BenchError
from bench.launch.launcher import Launcher
from tests.integration import trivial

if __name__ == "__main__":
    try:
        trivial.run(
            trivial.SIX_TRIALS, Path(sys.argv[1]), launcher=Launcher(rank_function=trivial.run_rank, preload=())
        )
    except BenchError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a program
        sys.exit(error.exit_code)
