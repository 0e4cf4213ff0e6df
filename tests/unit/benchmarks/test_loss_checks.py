"""Losses of AMP modes are compared as far as they made the same updates."""

from __future__ import annotations

import math

import pandas as pd

from benchmarks.gpu_check.loss_checks import judge_losses
from benchmarks.gpu_check.outcome import Finding


def curve(losses: list[float], skipped: tuple[int, ...] = ()) -> pd.DataFrame:
    results = ["skipped" if update in skipped else "applied" for update in range(len(losses))]
    return pd.DataFrame({"update": range(len(losses)), "result": results, "train_loss": losses})


VOCABULARY = 22_026  # ln 22026 is 10.0
FP32 = [10.0, 9.0, 8.0, 7.0]


def judged(curves: dict[str, pd.DataFrame]) -> Finding:
    return judge_losses({(mode, 0): curve for mode, curve in curves.items()}, VOCABULARY)


def test_modes_that_made_the_same_updates_are_compared_at_the_last() -> None:
    """Within the tolerance or not."""
    good = judged({"fp32": curve(FP32), "bf16": curve([10.0, 9.0, 8.0, 7.04])})
    assert (good.status, "at update 3" in good.figure) == ("PASS", True)
    assert judged({"fp32": curve(FP32), "bf16": curve([10.0, 9.0, 8.0, 7.06])}).status == "FAIL"


def test_update_that_the_scaler_skipped_is_not_held_against_fp16() -> None:
    """It skipped update 1, so its losses from 2 on are those of other weights: right, and a nat away."""
    late = judged({"fp32": curve(FP32), "fp16": curve([10.0, 9.01, 9.0, 8.0], skipped=(1,))})
    assert late.status == "PASS"
    assert "at update 1" in late.figure
    assert "fp16 skipped updates from 1 on" in late.figure


def test_wrong_loss_up_to_the_skip_is_found() -> None:
    """The skipped update's own loss is still one of the same weights."""
    assert judged({"fp32": curve(FP32), "fp16": curve([10.0, 9.2, 9.0, 8.0], skipped=(1,))}).status == "FAIL"


def test_mode_that_never_trains_fails_though_its_first_loss_is_right() -> None:
    """Each update skipped: only the initial weights would be compared."""
    stuck = judged({"fp32": curve(FP32), "fp16": curve([10.0] * 4, skipped=(0, 1, 2, 3))})
    assert stuck.status == "FAIL"
    assert "fp16 applied none" in stuck.figure


def test_equal_losses_of_a_device_that_computes_nothing_fail() -> None:
    """All are 0, and agree."""
    silent = judged({"fp32": curve([0.0] * 4), "bf16": curve([0.0] * 4)})
    assert silent.status == "FAIL"
    assert "0.0000 at first, ln(vocabulary) 10.0000" in silent.figure


def test_witnessed_updates_that_keep_no_loss_are_left_out() -> None:
    """They come last."""
    both = {"fp32": curve([*FP32, math.nan]), "bf16": curve([*FP32, math.nan])}
    assert judged(both).status == "PASS"


def test_each_round_of_a_mode_is_looked_at() -> None:
    """A loss that is off in one of three launches fails."""
    rounds = {("bf16", number): curve([10.0, 9.0, 8.0, loss]) for number, loss in enumerate([7.0, 7.0, 7.1])}
    assert judge_losses(rounds, VOCABULARY).status == "FAIL"
