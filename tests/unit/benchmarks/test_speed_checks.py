"""Checks of speed on a GPU judge planted figures as they should; the turns themselves run on a CPU too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bench.telemetry.samples import GpuTrack
from bench.telemetry.watch import GpuWatch
from benchmarks.bare_loop import FULL_ROWS_UPDATE, rows_of_updates
from benchmarks.gpu_check.speed_checks import judge_watching, launches_agree, take_turns
from benchmarks.overhead import UPDATES_BEFORE, Bare, Work, loss_difference, side_by_side

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.parametrize(("cost", "status"), [(0.0, "PASS"), (0.004, "PASS"), (0.02, "FAIL")])
def test_watching_may_cost_half_a_per_cent(cost: float, status: str) -> None:
    """Ratios around 1 - cost, of twelve blocks."""
    noise = 0.001 * np.random.default_rng(1).standard_normal(12)
    found = judge_watching((np.log(1 - cost) + noise).tolist())
    assert found.status == status
    assert float(found.figure.split()[4]) == pytest.approx(1 - cost, abs=0.001)


def test_estimate_alone_shows_nothing() -> None:
    """No cost at all on the mean, but an interval that reaches far below what watching may cost."""
    found = judge_watching([-0.03, 0.03] * 6)
    assert found.status == "SKIP"
    assert found.figure.startswith("not shown")


class NotedWatch(GpuWatch):
    """Write down when the watching began and ended."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def start(self) -> None:
        """Note it."""
        self.notes.append("start")

    def stop(self) -> list[GpuTrack]:
        """Note it, unless it is stopped."""
        if self.notes and self.notes[-1] == "start":
            self.notes.append("stop")
        return []


def test_gpu_is_watched_in_our_turns_alone() -> None:
    """From this process; the bare loop runs unwatched, and so does what comes after."""
    script = "\nfor turn in ('ours', 'bare', 'bare', 'ours'):\n print(turn, flush=True); input()\nprint('[1]')"
    watch = NotedWatch()
    assert take_turns([sys.executable, "-c", script], watch) == ("[1]", "")
    assert watch.notes == ["start", "stop"] * 2


def test_loop_that_dies_in_its_turn_fails_with_its_last_words() -> None:
    """And nothing is watched any more."""
    watch = NotedWatch()
    answer, error = take_turns([sys.executable, "-c", "print('ours'); raise SystemExit('out of luck')"], watch)
    assert (answer, error) == (None, "out of luck")
    assert watch.notes == ["start", "stop"]


@pytest.mark.slow
def test_both_loops_announce_their_turns() -> None:
    """As many of each."""
    numbers = ("gpt2-nano", "16", "1", "2", "3", "2", "2", "1")
    watch = NotedWatch()
    answer, error = take_turns([sys.executable, "-m", "benchmarks.alternating", *numbers, "cpu", "told"], watch)
    assert answer is not None, error
    assert len(json.loads(answer)["clock"]) == 2
    assert watch.notes == ["start", "stop"] * 4


@pytest.mark.parametrize(
    ("rates", "peaks", "status"),
    [
        ([100.0, 100.5, 99.8, 100.2, 100.1], [7] * 5, "PASS"),
        ([100.0, 104.0, 97.0, 100.0, 102.0], [7] * 5, "FAIL"),
        ([100.0] * 5, [7, 7, 7, 7, 8], "FAIL"),
        ([100.0, None, 100.0, 100.0, 100.0], [7] * 5, "FAIL"),
        ([100.0] * 4, [7] * 4, "FAIL"),
    ],
    ids=["quiet", "restless", "another peak", "one failed", "one missing"],
)
def test_launches_may_differ_by_a_per_cent_and_not_in_their_peak(
    rates: list[float | None], peaks: list[int], status: str
) -> None:
    """Five of one configuration."""
    launches = pd.DataFrame({"valid_tokens_per_s": rates, "peak_allocated_bytes": peaks}).astype(
        {"valid_tokens_per_s": float}
    )
    lab: Any = SimpleNamespace(
        device="cuda", sweep=lambda *arguments: None, run=lambda sweep: SimpleNamespace(launches=launches)
    )
    assert launches_agree(lab).status == status


def test_bare_loop_takes_every_row_once_and_none_that_is_held_out() -> None:
    """As `bench` deals them: a hundredth is held out, one window is that of the memory pass."""
    dealt = rows_of_updates(num_tokens=4001, seq_len=10, global_batch_size=4, updates=9) // 10
    assert dealt.shape == (9, 4)
    held_out = {50, 150, 250, 350}
    assert not held_out & set(dealt.flatten().tolist())
    assert dealt[FULL_ROWS_UPDATE].tolist() == [0, 1, 2, 3]
    others = np.delete(dealt, FULL_ROWS_UPDATE, axis=0).flatten()
    assert len(set(others.tolist())) == len(others)


def test_unequal_loss_curves_are_told_apart() -> None:
    """By the largest relative difference; curves of other lengths are no pair."""
    assert loss_difference([2.0, 4.0], [2.0, 4.0]) == 0.0
    assert loss_difference([2.0, 4.4], [2.0, 4.0]) == pytest.approx(0.1)
    assert loss_difference([2.0], [2.0, 4.0]) == float("inf")


@pytest.mark.slow
def test_both_loops_take_turns_in_one_process() -> None:
    """Two clocks, one figure a block."""
    command = [sys.executable, "-m", "benchmarks.alternating", "gpt2-nano", "16", "1", "2", "3", "4", "2", "1"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert {clock: len(found) for clock, found in answer.items()} == {"clock": 4, "processor": 4}
    assert np.isfinite(list(answer.values())).all()


def test_time_of_a_bare_update_is_that_between_two_moments() -> None:
    """Updates of 2 s on the clock, 1 s on the processor, but those before and after take longer."""
    ends = [(0.0, 0.0), (10.0, 5.0), (12.0, 6.0), (14.0, 7.0), (16.0, 8.0), (30.0, 15.0)]
    assert Bare(ends, []).update_cpu_s(10.5, 15.3) == pytest.approx(1.0)
    for from_s, to_s in ((-1.0, 15.0), (10.0, 31.0)):
        with pytest.raises(ValueError, match="did not run throughout"):
            Bare(ends, []).update_cpu_s(from_s, to_s)


@pytest.mark.slow
def test_the_bare_loop_beside_a_launch_trains_what_bench_trains() -> None:
    """Every loss of every update is the same: the two sides of the overhead do the same work."""
    work = Work("nano", "gpt2-nano", 16, 2, 2, warmup_updates=1, updates=30, goal=0.0, goal_low=0.0, turns=(1, 1, 1))
    launch, bare = side_by_side(work)
    assert len(launch.losses) == UPDATES_BEFORE + 31
    assert loss_difference(launch.losses, bare.losses[: len(launch.losses)]) <= 1e-6
    assert launch.update_cpu_s > 0
    assert bare.update_cpu_s(launch.from_s, launch.to_s) > 0
