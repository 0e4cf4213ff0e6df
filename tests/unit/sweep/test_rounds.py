"""The length of a launch, and the number of rounds, as asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.sweep.expand import MachineFacts, expand
from bench.sweep.fields import MeasureSpec
from bench.sweep.file import load_sweep
from bench.sweep.trial import Trial

SWEEP = """\
format: 1
name: good
base: {model: {preset: gpt2-nano}, seq_len: 32, global_batch_size: 8}
axes: {micro_batch_size: [1, 2]}
"""


@pytest.mark.parametrize(
    ("given", "preset", "fixed", "rounds"),
    [
        ({}, "normal", (None, None), 3),
        ({"quality_updates": 5}, "normal", (None, None), 3),
        ({"preset": "quick"}, "quick", (None, None), 3),
        ({"preset": "quick", "rounds": 5}, "quick", (None, None), 5),
        ({"updates": 7}, None, (3, 7), 1),
        ({"warmup_updates": 0}, None, (0, 20), 1),
        ({"warmup_updates": 1, "updates": 2, "rounds": 4}, None, (1, 2), 4),
    ],
)
def test_a_preset_or_a_fixed_length_always_holds(
    given: dict[str, Any], preset: str | None, fixed: tuple[int | None, int | None], rounds: int
) -> None:
    """Normal in three rounds where nothing is said; and what is written to a trial's file reads back the same."""
    measure = MeasureSpec.model_validate(given)
    assert (measure.preset, measure.rounds) == (preset, rounds)
    assert (measure.warmup_updates, measure.updates) == fixed
    assert MeasureSpec.model_validate(measure.model_dump(mode="json")) == measure


def test_an_epoch_may_end_in_a_launch_of_open_length(tmp_path: Path) -> None:
    """How much a preset reads is not known before, so nothing can be said against a long epoch."""
    path = tmp_path / "open.yaml"
    path.write_text(SWEEP.replace("seq_len", "data: {sequences_per_epoch: 1000000}, seq_len"))
    assert load_sweep(path).spec.measure.preset == "normal"


def test_more_rounds_change_no_trial(tmp_path: Path) -> None:
    """The number of passes is no setting of a trial."""
    path = tmp_path / "good.yaml"
    path.write_text(SWEEP)
    sweep = load_sweep(path)
    more = sweep.with_rounds(9)
    facts = MachineFacts("cpu", 0)

    def ids(which: Any) -> list[str]:
        return [point.trial_id for point in expand(which, facts) if isinstance(point, Trial)]

    assert more.spec.measure.rounds == 9
    assert ids(more) == ids(sweep)
