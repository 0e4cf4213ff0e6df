"""Show that every promise has a test that fails without its guard: `python -m tests.mutations [F20 ...]`.

Works on a copy below the temporary directory and changes nothing here. Exits with 1 when a guard can go unmissed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from click import echo

from tests.mutations.run import Verdict, copy_package, run_tests, take_away
from tests.mutations.table import MUTATIONS


def main(faults: list[str]) -> int:
    """Take the guards of these faults away, or all; print a table and return how many were not missed."""
    chosen = [mutation for mutation in MUTATIONS if not faults or mutation.fault in faults]
    with tempfile.TemporaryDirectory(prefix="bench-mutations-") as scratch:
        tree = copy_package(Path(scratch))
        whole = run_tests(tree, sorted({test for mutation in chosen for test in mutation.tests}))
        echo(f"with every guard in place: {whole.stdout.strip().splitlines()[-1]}")
        if whole.returncode != 0:
            echo(whole.stdout)
            return 1
        verdicts: list[Verdict] = []
        for mutation in chosen:
            verdict = take_away(tree, mutation)
            verdicts.append(verdict)
            mark = "missed  " if verdict.is_missed else "UNMISSED"
            echo(f"{mark} {mutation.fault:4} {mutation.words}: {verdict.words}")
    unmissed = sum(not verdict.is_missed for verdict in verdicts)
    echo(f"{len(verdicts)} guards taken away, {len(verdicts) - unmissed} missed by their tests, {unmissed} not")
    return int(unmissed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
