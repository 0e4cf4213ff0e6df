"""A test that the machine cannot run skips, and fails where it must not skip."""

from __future__ import annotations

import pytest

from tests.requirements import VARIABLE, require, require_program


def test_nothing_missing_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs."""
    monkeypatch.setenv(VARIABLE, "gcc")
    require("gcc", None)
    assert require_program("sh").endswith("/sh")


def test_missing_capability_skips_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is in the closing lines of the run."""
    monkeypatch.setenv(VARIABLE, "mount, slurm")
    with pytest.raises(pytest.skip.Exception, match="chromium: there is no browser"):
        require("chromium", "there is no browser")


def test_required_capability_that_is_missing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A skip would hide that a part was never tested."""
    monkeypatch.setenv(VARIABLE, "mount, slurm")
    with pytest.raises(pytest.fail.Exception, match="asks for slurm: there is no slurmctld"):
        require("slurm", "there is no slurmctld")
