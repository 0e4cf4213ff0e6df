"""A rank whose device computes wrongly ends before its first update."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from bench.launch.trial_file import TrialFile
from bench.rank.worker import run_rank
from bench.record.paths import LaunchPaths
from tests.small_launch import build


def run(folder: Path) -> dict[str, Any]:
    """Run one rank in this process; give what it wrote."""
    trial: TrialFile = build().trial
    paths = LaunchPaths(folder)
    trial.write(paths.trial_file)
    run_rank(paths, 0)
    document: dict[str, Any] = json.loads(paths.rank_file(0).read_text())
    return document


def test_a_sound_device_is_measured_and_its_error_kept(tmp_path: Path) -> None:
    document = run(tmp_path)
    assert document["outcome"] == "ok", document["reason"]
    assert 0 < document["columns"]["matmul_error"] < 1e-5
    assert document["updates"]


def test_a_device_that_computes_nothing_is_invalid_before_any_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = functional.linear

    def nothing(*arguments: Any) -> torch.Tensor:
        return right(*arguments) * 0

    monkeypatch.setattr(functional, "linear", nothing)
    document = run(tmp_path)
    assert (document["outcome"], document["phase"]) == ("invalid", "build")
    assert document["reason"].startswith("arithmetic: a matrix product in fp32")
    assert "off by 1.0e+00" in document["reason"]
    assert document["columns"]["matmul_error"] == 1.0
    assert document["columns"]["hostname"], "what was known before is kept"
    assert document["updates"] == []
