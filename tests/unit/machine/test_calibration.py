"""A calibration is found again by exactly what it was measured on, and by nothing else."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from bench.errors import EnvironmentFault, StorageError
from bench.machine import calibration
from bench.machine.calibration import DeviceKey, calibrate, keep, read

CEILING = {"per_s": 3e9, "spread": 0.02, "size": 512, "repeats": 9}
CEILINGS: dict[str, Any] = {"matmul": {"fp32": CEILING, "bf16": None}, "copy": CEILING, "host_to_device": None}
KEY = DeviceKey("cpu", "A Processor", None, "host", 2, "2.13.0")


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_what_is_kept_is_read_back(cache_home: Path) -> None:
    """In one file below the cache folder, whole or not there."""
    document = keep(KEY, CEILINGS)
    assert read(KEY).document == document
    assert read(KEY).matmul_flops_per_s("fp32") == 3e9
    assert [path.parent for path in cache_home.rglob("*.json")] == [cache_home / "accumbench" / "ceilings"]
    assert not list(cache_home.rglob("*.tmp"))


def test_nothing_kept_is_no_fault() -> None:
    """Most people never calibrate."""
    assert read(KEY) == calibration.Stored(None, None)
    assert read(KEY).matmul_flops_per_s("fp32") is None


def test_precision_that_was_not_measured_is_null() -> None:
    """Neither one without memory for it, nor one the device does not have."""
    keep(KEY, CEILINGS)
    assert read(KEY).matmul_flops_per_s("bf16") is None
    assert read(KEY).matmul_flops_per_s("tf32") is None


def test_disturbed_ceiling_is_kept_and_not_used() -> None:
    """A busy machine reaches less than it can."""
    keep(KEY, CEILINGS | {"matmul": {"fp32": CEILING | {"spread": 0.11}}})
    assert read(KEY).document is not None
    assert read(KEY).matmul_flops_per_s("fp32") is None


@pytest.mark.parametrize(
    "change", [{"name": "B"}, {"hostname": "other"}, {"threads": 1}, {"torch_version": "2.14.0"}, {"uuid": "GPU-1"}]
)
def test_another_device_torch_or_number_of_threads_finds_nothing(change: dict[str, Any]) -> None:
    """Each is part of the key."""
    keep(KEY, CEILINGS)
    assert read(replace(KEY, **change)).document is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        '{"format": 1}',
        json.dumps({"format": 2, "key": asdict(KEY), **CEILINGS}),
        json.dumps({"format": 1, "key": asdict(replace(KEY, threads=1)), **CEILINGS}),
        json.dumps({"format": 1, "key": asdict(KEY), **CEILINGS, "copy": {"per_s": -1, "spread": 0}}),
        json.dumps({"format": 1, "key": asdict(KEY), **CEILINGS, "matmul": {"fp32": {"per_s": "fast", "spread": 0}}}),
        json.dumps({"format": 1, "key": asdict(KEY), **CEILINGS, "matmul": {"fp32": 3}}),
        "\ufffd\x00",
    ],
)
def test_damaged_file_is_ignored_and_said(text: str) -> None:
    """Whatever is in it; measuring again replaces it."""
    keep(KEY, CEILINGS)
    KEY.path().write_text(text)
    stored = read(KEY)
    assert stored.document is None
    assert "bench env --calibrate" in str(stored.problem)
    keep(KEY, CEILINGS)
    assert read(KEY).problem is None


def test_folder_that_cannot_be_written_is_named(cache_home: Path) -> None:
    """A file stands where the folder should be."""
    cache_home.write_text("")
    with pytest.raises(StorageError, match="ceilings"):
        keep(KEY, CEILINGS)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (subprocess.CalledProcessError(1, "probe", "", "line\nRuntimeError: no kernel image"), "no kernel image"),
        (subprocess.TimeoutExpired("probe", 900), "did not finish"),
    ],
)
def test_probe_that_fails_or_hangs_is_an_environment_fault(
    monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    """It runs in a process of its own, which may die of a broken driver."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(calibration.subprocess, "run", fail)
    with pytest.raises(EnvironmentFault, match=words):
        calibrate("cpu")
