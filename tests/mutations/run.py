"""Take guards away in a copy of the package, one at a time, and see that the tests miss each of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.mutations.mutation import Mutation, places_of
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
COPIED = ("bench", "tests", "sweeps", "docs", "examples", "benchmarks", "pyproject.toml")
_MARK = "BENCH_MUTATION"
"""Environment variable that every process of a run carries, so that what a missing guard leaves can be ended."""
_TEST_LIMIT_S = PATIENCE_S / 5
"""Longest that one test may take without a guard [s]: what waits in vain for it has missed it."""


@dataclass(frozen=True)
class Verdict:
    """State what the tests of a mutation said."""

    mutation: Mutation
    is_missed: bool
    """Whether a test failed without the guard, as one must."""
    words: str


def copy_package(folder: Path) -> Path:
    """Copy what the tests need into a folder of its own: the working tree is never touched."""
    tree = folder / "tree"
    tree.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)
    found = _run([sys.executable, "-c", "import bench; print(bench.__file__)"], tree)
    assert found.stdout.strip() == str(tree / "bench" / "__init__.py"), f"the tests would import {found.stdout}"
    return tree


def sources_of(tree: Path) -> dict[str, str]:
    """Read the package of a tree: text of every file, by its path in the tree."""
    return {str(path.relative_to(tree)): path.read_text() for path in sorted((tree / "bench").rglob("*.py"))}


def run_tests(tree: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run these tests of a tree until the first that fails."""
    options = ["-x", "-q", "--no-header", "--tb=line", "-m", "", "-p", "no:randomly", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, f"--timeout={_TEST_LIMIT_S:g}", "--color=no"]
    return _run([*command, *(f"tests/{test}" for test in tests)], tree, PATIENCE_S * len(tests))


def take_away(tree: Path, mutation: Mutation) -> Verdict:
    """Take one guard away, run the tests that must miss it, and put it back."""
    whole = sources_of(tree)
    places = [places_of(guard, whole) for guard, _ in mutation.edits()]
    for (guard, _), found in zip(mutation.edits(), places, strict=True):
        if len(found) != 1:
            return Verdict(mutation, False, f"{guard!r} stands in {found or 'no file'}, not once")
    changed = {file for (file,) in places}
    try:
        for (guard, without), (file,) in zip(mutation.edits(), places, strict=True):
            path = tree / file
            path.write_text(path.read_text().replace(guard, without))
        missed = [(test, run_tests(tree, [test])) for test in mutation.tests]
    finally:
        for file in changed:
            (tree / file).write_text(whole[file])
    for test, done in missed:
        # 1: a test failed; anything else is a test that passed, was skipped, or could not be collected.
        if done.returncode != 1:
            return Verdict(mutation, False, f"{test}: {_last_line(done.stdout)}")
    return Verdict(mutation, True, f"{len(missed)} of {len(missed)} tests failed")


def _last_line(text: str) -> str:
    return next(iter(text.strip().splitlines()[::-1]), "no output")


def _run(command: Sequence[str], tree: Path, limit_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
    """Run a command on a tree, for so long at most [s], and end what it leaves."""
    mark = uuid.uuid4().hex
    environment = os.environ | {_MARK: mark, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        output = "the tests did not end"
    finally:
        _end_all(mark)
        process.wait()
    return subprocess.CompletedProcess(command, process.returncode, output)


def _end_all(mark: str) -> None:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(_MARK) == mark:
                os.kill(process.pid, signal.SIGKILL)
