"""No test fails by the clock: how long tests wait stands in tests/patience.py, and Hypothesis has one profile."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = {path.relative_to(TESTS).as_posix(): path for path in sorted(TESTS.rglob("*.py"))}
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns"}
WAITS = {"wait", "join", "poll", "acquire"}

EXCEPTIONS = {
    "patience.py": "the one place",
    "unit/check/test_prove.py": "hands the product a deadline, from PATIENCE_S",
    "checked.py": "hands the product a deadline, from PATIENCE_S",
    "unit/drive/test_lock.py": "sets the clock on; waits for nothing",
    "conftest.py": "the one profile",
    "integration/conftest.py": "compares how long ranks have stood still, which grows for ever",
    "integration/test_hangs.py": "compares how long ranks have stood still, which grows for ever",
}
"""File to the reason why it may hold what looks like a limit of its own."""


def limits_in(source: str) -> Iterator[str]:
    """Find what makes a test depend on how fast the machine is, each by its line and the way out."""
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            for keyword in node.keywords:
                if keyword.arg == "timeout" and _is_number(keyword.value):
                    yield f"line {line}: timeout={ast.unparse(keyword.value)}; take PATIENCE_S of tests/patience.py"
                if keyword.arg == "deadline" and name in ("settings", "register_profile"):
                    yield f"line {line}: deadline=; the profile of tests/conftest.py has it"
                text = ast.unparse(keyword.value)
                if keyword.arg == "suppress_health_check" and "too_slow" not in text and text != "list(HealthCheck)":
                    yield f"line {line}: suppress_health_check replaces the profile's: name too_slow in it too"
            if name in WAITS and isinstance(node.func, ast.Attribute) and any(map(_is_number, node.args)):
                yield f"line {line}: {ast.unparse(node)}; take PATIENCE_S of tests/patience.py"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _reads_a_clock(node):
            yield f"line {line}: {ast.unparse(node)}; wait by wait_until of tests/patience.py"
        if isinstance(node, ast.Compare) and _reads_a_clock(node):
            yield f"line {line}: {ast.unparse(node)}; wait by wait_until of tests/patience.py"


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _reads_a_clock(node: ast.expr) -> bool:
    return any(
        isinstance(inner, ast.Call) and ast.unparse(inner.func) in {f"time.{clock}" for clock in CLOCKS}
        for inner in ast.walk(node)
    )


@pytest.mark.parametrize("file", [file for file in FILES if file not in EXCEPTIONS])
def test_file_has_no_time_limit_of_its_own(file: str) -> None:
    """A number there would be right for one machine."""
    assert list(limits_in(FILES[file].read_text())) == []


@pytest.mark.parametrize("file", EXCEPTIONS)
def test_exception_is_still_needed(file: str) -> None:
    """It goes when what it excuses goes."""
    assert list(limits_in(FILES[file].read_text()))


@pytest.mark.parametrize(
    "source",
    [
        "subprocess.run(command, timeout=60)",
        "process.communicate(timeout=1.5)",
        "process.join(30)",
        "deadline = time.monotonic() + 60",
        "while time.monotonic() < deadline: pass",
        "assert time.perf_counter() - begin < 1",
        "@settings(max_examples=3, deadline=None)\ndef test(): ...",
        "@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])\ndef test(): ...",
    ],
)
def test_limit_is_found_however_it_is_written(source: str) -> None:
    """Each was in a test that failed on a busy machine, or could have been."""
    assert len(list(limits_in(source))) == 1


@pytest.mark.parametrize(
    "source", ["process.wait(timeout=PATIENCE_S)", "', '.join(words)", "wait_until(path.exists, 'it is there')"]
)
def test_wait_for_an_event_is_no_limit(source: str) -> None:
    """Nor is what only looks like one."""
    assert list(limits_in(source)) == []
