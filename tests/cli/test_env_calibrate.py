"""`bench env --calibrate`: what a device reaches at best, measured once and kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.cli import main
from bench.cli.ceilings import ceilings_text
from bench.measure.host import usable_cores

CEILING = {"per_s": 3e9, "spread": 0.02, "size": 512, "repeats": 9}
KEY = {"device": "cuda", "name": "NVIDIA H200", "uuid": "GPU-1", "hostname": None, "threads": None}
DOCUMENT: dict[str, Any] = {
    "format": 1,
    "key": KEY | {"torch_version": "2.13.0+cu130"},
    "measured_utc": "2026-12-01T10:00:00+00:00",
    "matmul": {"fp32": CEILING | {"per_s": 52e12}, "bf16": CEILING | {"per_s": 790e12, "spread": 0.15}, "fp16": None},
    "copy": CEILING | {"per_s": 4e12, "size": 1024**3},
    "host_to_device": CEILING | {"per_s": 50e9, "size": 1024**3},
}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Be a machine without a GPU, with a cache of its own, that measures small matrices."""
    from bench.machine import report as machine_report
    from bench.telemetry import nvml

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine_report, "read_nvml", nvml.NvmlReport)
    monkeypatch.setattr(machine_report, "device_files", lambda: ())


def run(*arguments: str) -> Any:
    """Run `bench env` in this process."""
    result = CliRunner().invoke(main, ["env", *arguments])
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.slow
def test_ceilings_are_measured_kept_and_said_again(machine: None) -> None:
    """JSON has base units; the next `bench env` finds them, other threads find none."""
    measured = json.loads(run("--calibrate", "--threads", "1", "--format", "json").stdout)["ceilings"]
    assert [entry["key"]["threads"] for entry in measured] == [1]
    assert set(measured[0]["matmul"]) == {"fp32", "bf16", "fp16"}
    assert measured[0]["matmul"]["fp32"]["per_s"] > 0
    assert measured[0]["copy"]["per_s"] > 0
    assert measured[0]["host_to_device"] is None
    again = json.loads(run("--threads", "1", "--format", "json").stdout)
    assert again["ceilings"] == measured
    assert json.loads(run("--threads", "3", "--format", "json").stdout)["ceilings"] == []
    text = run("--threads", "1").stdout
    assert "matmul fp32" in text
    assert "1 thread, torch" in " ".join(text.split())


def test_machine_that_was_never_calibrated_is_told_how(machine: None) -> None:
    """And the report goes on."""
    assert "none yet: bench env --calibrate" in run().stdout


def test_damaged_calibration_is_said(machine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the text and in the JSON."""
    import torch

    from bench.machine.calibration import DeviceKey
    from bench.measure.host import cpu_model

    path = DeviceKey.cpu(cpu_model(), usable_cores(), str(torch.__version__)).path()
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert "is not used" in " ".join(run().stdout.split())
    report = json.loads(run("--format", "json").stdout)
    assert (report["ceilings"], len(report["ceilings_problems"])) == ([], 1)


def test_text_says_rates_spreads_and_what_was_disturbed() -> None:
    """A GPU has a copy from the host too; a precision without memory for it is said."""
    text = "\n".join(ceilings_text({"ceilings": [DOCUMENT], "ceilings_problems": []}, 80))
    assert "NVIDIA H200, torch 2.13.0+cu130" in text
    assert "matmul fp32     52.0 TFLOP/s  spread 2 %     512 x 512" in text
    assert "matmul fp16     not measured" in text
    assert "host to device" in text
    assert "warning: a spread above 10 % (matmul bf16)" in text


@pytest.mark.parametrize("width", [80, 40])
def test_no_line_of_the_ceilings_is_wider_than_the_terminal(width: int) -> None:
    """Lines break between words."""
    lines = ceilings_text({"ceilings": [DOCUMENT], "ceilings_problems": ["word " * 40]}, width)
    assert max(map(len, lines)) <= width
