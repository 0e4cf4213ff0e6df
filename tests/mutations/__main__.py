"""Show that every promise has a test that fails without its guard: `python -m tests.mutations [F20 ...] [cuda]`.

Works on a copy below the temporary directory and changes nothing here. Exits with 1 when a guard can go unmissed.
Tests below tests/cuda/ need torch's CUDA build and are left out without it; the word cuda asks for them alone.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from click import echo

from tests.mutations.mutation import Mutation
from tests.mutations.run import Verdict, copy_package, run_tests, take_away
from tests.mutations.table import MUTATIONS

ON_STANDIN = "cuda"
"""What asks for the tests of the CUDA code alone, and the folder they are in."""


def choose(words: Sequence[str], has_cuda: bool) -> list[Mutation]:
    """List the mutations asked for, each with those of its tests that can run here; without any it is left out.

    Args:
        words: Faults, all where there is none, and `ON_STANDIN`.
        has_cuda: Whether torch is a CUDA build.
    """
    faults = {word for word in words if word != ON_STANDIN}
    known = {mutation.fault for mutation in MUTATIONS}
    assert faults <= known, f"no guard is listed for {', '.join(sorted(faults - known))}"
    found = []
    for mutation in MUTATIONS:
        on_standin = [test for test in mutation.tests if test.startswith(f"{ON_STANDIN}/")]
        others = [] if ON_STANDIN in words else [test for test in mutation.tests if test not in on_standin]
        tests = (*others, *(on_standin if has_cuda else ()))
        if tests and (not faults or mutation.fault in faults):
            found.append(replace(mutation, tests=tests))
    return found


def main(words: list[str]) -> int:
    """Take the guards of these faults away, or all; print a table and return how many were not missed."""
    has_cuda = torch.version.cuda is not None
    if not has_cuda:
        echo("this torch is no CUDA build: tests on the stand-in GPU are left out")
    chosen = choose(words, has_cuda)
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
