"""The stand-in's self-test, and what it refuses."""

from __future__ import annotations

import subprocess
import sys

import pytest

import bench.standin.self_test as self_test
from bench.errors import EnvironmentFault
from bench.standin import check, is_standin

pytestmark = pytest.mark.cuda


def test_the_self_test_passes_as_a_program() -> None:
    done = subprocess.run([sys.executable, "-m", "bench.standin"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "self-test passed in" in done.stdout


def test_a_build_that_has_passed_is_not_tested_again() -> None:
    check()
    assert check() is None


def test_a_part_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = self_test.environment

    def with_a_fault(**switches: object) -> dict[str, str]:
        return {**environment(**switches), "STANDIN_BLAS_REFUSED": "1"}  # type: ignore[arg-type]

    monkeypatch.setattr(self_test, "environment", with_a_fault)
    with pytest.raises(
        EnvironmentFault, match=r"does not carry torch .* at an AMP step: .*CUBLAS_STATUS_NOT_INITIALIZED"
    ):
        check(again=True)


def test_a_torch_that_does_not_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "1")
    monkeypatch.setattr(self_test.sys, "executable", "/bin/false")
    with pytest.raises(EnvironmentFault, match=r"at the start: the process ended with 1"):
        check(again=True)


def test_pytests_own_process_has_no_stand_in() -> None:
    assert not is_standin()
