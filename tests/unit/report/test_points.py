"""Points are trials: rounds summarised, incomplete rows left out, names that tell them apart."""

import math

import pytest

from bench.report.points import absent_of, facts_of, points_of
from tests.strategies import failed_row, numbered, ok_row


def test_rounds_of_a_trial_are_one_point():
    """Tokens / seconds over all of them with the range of their speeds, largest of the peaks."""
    rounds = [
        ok_row(round=n, timed_s=s, peak_allocated_bytes=b) for n, s, b in ((0, 40.0, 5), (1, 20.0, 7), (2, 80.0, 6))
    ]
    (point,) = points_of(rounds)
    assert point.speed == pytest.approx(3 * 163_840 / (40 + 20 + 80))
    assert (point.slowest, point.fastest, point.memory_bytes) == (2048.0, 8192.0, 7.0)


def test_rows_without_both_values_are_left_out_never_zero():
    """Missing, nan and failed rows do not become points."""
    rows = [
        ok_row(peak_allocated_bytes=None),
        ok_row(timed_s=None),
        {**ok_row(), "valid_tokens_per_s": math.nan},
        failed_row(),
        ok_row(micro_batch_size=2),
    ]
    assert [point.label for point in points_of(numbered(rows))] == ["2 \u00d7 8"]


def test_labels_name_whatever_else_varies():
    """Two points that differ in a further axis do not share a name."""
    rows = numbered(
        [ok_row(world_size=n, rows=r, activation_checkpointing=n == 2) for n in (1, 2) for r in ("packed", "ragged")]
    )
    assert [point.label for point in points_of(rows)] == [
        "8 \u00d7 8, 1 rank, packed rows",
        "8 \u00d7 8, 1 rank, ragged rows",
        "8 \u00d7 8, 2 ranks, packed rows, checkpointing",
        "8 \u00d7 8, 2 ranks, ragged rows, checkpointing",
    ]


def test_long_names_are_cut_and_stay_apart():
    """A name of any length leaves the label readable, and no two labels become one."""
    rows = [
        ok_row(
            trial_id=f"{number:012x}",
            model="m" * 200,
            rows=kind * 29,
            optimizer=f"optimizer-{number}",
            lr=0.1 * number,
        )
        for number, kind in enumerate("rrs", 1)
    ]
    rows[2]["model"] = "n" * 200
    labels = [point.label for point in points_of(rows)]
    assert len(set(labels)) == 3
    assert max(map(len, labels)) <= 52


def test_points_know_their_training_problem():
    """What trains something else is no alternative, so it has a frontier of its own."""
    rows = [ok_row(trial_id=f"{number:012x}", lr=lr, micro_batch_size=2**number) for number, lr in enumerate((1, 2, 1))]
    assert [point.problem for point in points_of(rows)] == [0, 1, 0]


def test_what_is_absent_is_named_once_per_outcome():
    """Several rounds of one trial that failed alike are one name."""
    rows = [failed_row("oom", micro_batch_size=64), failed_row("oom", micro_batch_size=64, round=1), failed_row("hang")]
    assert absent_of(rows) == {"oom": ["fp32 64 \u00d7 8"], "hang": ["fp32 8 \u00d7 8"]}


def test_facts_say_model_batch_machine_and_date():
    """What a reader needs to repeat the measurement."""
    assert facts_of([ok_row(), ok_row(round=1, started_utc="2026-11-30T01:00:00Z")]) == [
        "gpt2-mini",
        "global batch 64 sequences of up to 128 tokens",
        "Example CPU @ 2.0 GHz",
        "1 rank",
        "2 launches",
        "torch 2.13.0",
        "laptop",
        "2026-11-29 to 2026-11-30",
    ]
