"""What an out-of-memory error teaches, and what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from bench.drive.pruning import Lessons
from bench.sweep.fields import TrialConfig
from bench.sweep.trial import Trial

HERE = {"device": "cuda", "gpus": [["A100", 80]], "allocator": {}}


def trial(micro: int, steps: int, **settings: Any) -> Trial:
    config = TrialConfig(
        micro_batch_size=micro, accumulation_steps=steps, global_batch_size=micro * steps, device="cuda", **settings
    )
    return Trial(f"{micro}-{steps}-{sorted(settings)}", config)


def launch(teacher: Trial, outcome: str = "oom", flags: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"trial_id": teacher.trial_id, "round": 0, "attempt": 1, "outcome": outcome, "flags": list(flags)}


def reason(pupil: Trial, teacher: Trial, machine: Any = HERE, **how: Any) -> str | None:
    lessons = Lessons([pupil, teacher], HERE)
    lessons.learn(launch(teacher, **how), machine)
    return lessons.reason_to_prune(pupil)


def test_larger_micro_batch_of_the_same_trial_otherwise_is_pruned_and_names_its_teacher() -> None:
    """By equal global batch, or by equal accumulation steps."""
    for pupil in (trial(16, 4), trial(16, 8)):
        text = reason(pupil, trial(8, 8))
        assert text is not None
        assert "micro_batch_size = 8 already ran out of memory" in text
        assert f"trial {trial(8, 8).trial_id}, round 0, attempt 1" in text


@pytest.mark.parametrize(
    ("pupil", "teacher"),
    [
        (trial(8, 8), trial(8, 8)),  # itself
        (trial(4, 16), trial(8, 8)),  # smaller
        (trial(64, 1), trial(32, 2)),  # at A = 1 no gradients live at the peak
        (trial(32, 2), trial(16, 8)),  # neither the batch nor the steps are the same
        (trial(16, 4, amp_mode="bf16"), trial(8, 8)),
        (trial(16, 4, activation_checkpointing=True), trial(8, 8)),
    ],
)
def test_other_trials_are_not_pruned(pupil: Trial, teacher: Trial) -> None:
    """Each differs from the teacher in one thing that matters."""
    assert reason(pupil, teacher) is None


@pytest.mark.parametrize("change", [{"gpus": [["A100", 40]]}, {"allocator": {"PYTORCH_ALLOC_CONF": "x"}}])
def test_error_under_other_memory_teaches_nothing(change: dict[str, Any]) -> None:
    """Another GPU, or another allocator."""
    assert reason(trial(16, 4), trial(8, 8), machine=HERE | change) is None


def test_error_while_others_used_the_gpu_teaches_nothing() -> None:
    """It may have been theirs."""
    assert reason(trial(16, 4), trial(8, 8), flags=("gpu_shared",)) is None


def test_host_memory_and_failures_teach_nothing() -> None:
    """Only the device's memory grows with the micro-batch by a known law."""
    assert reason(trial(16, 4), trial(8, 8), outcome="oom_host") is None
    assert reason(trial(16, 4), trial(8, 8), outcome="failed") is None
