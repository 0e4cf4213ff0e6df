"""What a test needs of the machine: without it the test skips with the reason, or fails where the machine must have it.

BENCH_TEST_REQUIRE lists, by commas, what the machine must have: gcc, mount, slurm, chromium, strace,
setpriv. There a skip would hide
that a part was never tested.
"""

from __future__ import annotations

import os
import shutil

import pytest

VARIABLE = "BENCH_TEST_REQUIRE"


def require(name: str, missing: str | None) -> None:
    """Go on when nothing is missing; else skip the test, or fail it where `name` is required.

    Args:
        name: what the test needs, as BENCH_TEST_REQUIRE lists it.
        missing: what is missing, in words; None when all is there.
    """
    if missing is None:
        return
    required = {entry.strip() for entry in os.environ.get(VARIABLE, "").split(",")}
    if name in required:
        pytest.fail(f"{VARIABLE} asks for {name}: {missing}", pytrace=False)
    pytest.skip(f"{name}: {missing}")


def require_program(name: str, program: str | None = None) -> str:
    """Give the path of a program that a test needs."""
    path = shutil.which(program or name)
    require(name, None if path else f"there is no program {program or name} on the PATH")
    assert path is not None, "require does not return without it"
    return path
