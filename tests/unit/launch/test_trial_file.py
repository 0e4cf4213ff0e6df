"""`trial.json` comes back as it was written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.launch.trial_file import TrialFile
from bench.sweep.fields import DataSpec, MeasureSpec, ModelSpec, SyntheticSpec, TrialConfig

TRIAL = TrialFile(
    sweep="nano",
    trial_id="0123456789ab",
    round=1,
    attempt=2,
    order=3,
    config=TrialConfig(
        device="cpu",
        model=ModelSpec(preset="gpt2-nano"),
        data=DataSpec(synthetic=SyntheticSpec(), rows="padded"),
        global_batch_size=8,
        accumulation_steps=2,
        micro_batch_size=4,
    ),
    measure=MeasureSpec(updates=7),
    world_size=1,
    gpus=(),
)


def test_trial_file_round_trip_is_the_identity(tmp_path: Path) -> None:
    """Nested settings and tuples included."""
    TRIAL.write(tmp_path / "trial.json")
    assert TrialFile.read(tmp_path / "trial.json") == TRIAL
    two = replace(TRIAL, world_size=2, gpus=(0, 1))
    two.write(tmp_path / "two.json")
    assert TrialFile.read(tmp_path / "two.json") == two


def test_file_of_another_format_is_refused(tmp_path: Path) -> None:
    """Driver and worker of different versions must not guess."""
    TRIAL.write(tmp_path / "trial.json")
    document = json.loads((tmp_path / "trial.json").read_text()) | {"format": 2}
    (tmp_path / "trial.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="different versions"):
        TrialFile.read(tmp_path / "trial.json")
