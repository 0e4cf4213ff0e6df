"""docs/reliability.md promises nothing without a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text()
ROWS = dict(re.findall(r"^\| (F\d+) \|(.*)$", PAGE, flags=re.MULTILINE))


def test_every_fault_has_its_row() -> None:
    """F1 to F42, in order."""
    assert list(ROWS) == [f"F{number}" for number in range(1, 43)]


@pytest.mark.parametrize("fault", ROWS)
def test_every_promise_has_a_test_that_exists(fault: str) -> None:
    """Named by file and function."""
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", ROWS[fault])
    assert named, f"{fault} names no test"
    for file, name in named:
        text = (ROOT / "tests" / file).read_text()
        assert re.search(rf"^(def|class) {name}\b", text, flags=re.MULTILINE), f"{fault}: {file} has no {name}"


@pytest.mark.parametrize("check", re.findall(r"`(\w+)` of `benchmarks/gpu_check`", PAGE))
def test_every_check_on_a_gpu_exists(check: str) -> None:
    """Named by its function."""
    assert f"def {check}(" in (ROOT / "benchmarks" / "gpu_check" / "checks.py").read_text()


def test_no_duration_comes_from_the_wall_clock() -> None:
    """time.time() moves when somebody sets the clock; labels use datetime."""
    wall_clock = re.compile(r"\btime\.time(_ns)?\(|from time import")
    assert [path for path in (ROOT / "bench").rglob("*.py") if wall_clock.search(path.read_text())] == []
