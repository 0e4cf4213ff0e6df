"""A driver killed at any moment: no finished trial is lost or doubled, and the sweep ends as if nothing had been."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from bench.launch.launcher import Launcher
from bench.record.fault_points import POINTS, install
from tests.integration import trivial

SWEEP = trivial.sweep_of({"seed": list(range(10)), "micro_batch_size": [1, 2, 4]})
"""Thirty trials."""
SMALL = trivial.sweep_of({"seed": [0, 1], "micro_batch_size": [1, 3, 4]})
"""Four trials and two skips."""

pytestmark = pytest.mark.slow


def test_every_point_is_reached_by_a_small_sweep(tmp_path: Path) -> None:
    """A point that nothing reaches would be a kill that is never tried, and a new one must be listed."""
    reached: set[str] = set()
    install(reached.add)
    try:
        trivial.run(SMALL, tmp_path / "results")
    finally:
        install(None)
    assert reached == set(POINTS)


@pytest.mark.parametrize("point", POINTS)
def test_sweep_killed_at_each_visit_of_a_point_ends_as_if_undisturbed(tmp_path: Path, point: str) -> None:
    """The driver dies at the first visit, its successor at the second of its own, and so on, until one gets through."""
    trivial.run(SMALL, tmp_path / "undisturbed")
    folder = tmp_path / "results"
    kept: set[tuple[str, int, str]] = set()
    for visit in (1, 2, 3, 5, 8, 13, 1_000_000):
        code = trivial.wait_for(trivial.run_in_a_process(SMALL, folder, trivial.kill_at(point, visit)))
        assert kept <= trivial.finished_of(folder), "a finished launch was lost"
        kept = trivial.finished_of(folder)
        if code == 0:
            break
        assert code == -signal.SIGKILL
    else:
        raise AssertionError("the sweep never ended")
    trivial.check_against(tmp_path / "undisturbed", folder)


def kill_at_random(undisturbed: Path, folder: Path, kills: int, seed: int, longest_s: float, real_ranks: bool) -> int:
    """Run sweeps and kill their drivers at random moments until so many kills have hit; count the sweeps that ended."""
    chance = random.Random(seed)
    hits = ends = 0
    while hits < kills:
        kept = trivial.finished_of(folder)
        launcher = real_launcher if real_ranks else trivial.InstantLauncher
        pid = trivial.run_in_a_process(SWEEP, folder, launcher=launcher)
        time.sleep(chance.uniform(0, longest_s))
        os.kill(pid, signal.SIGKILL)
        code = trivial.wait_for(pid)
        assert code in (0, -signal.SIGKILL)
        assert kept <= trivial.finished_of(folder), "a finished launch was lost"
        hits += code != 0
        if code == 0:
            trivial.check_against(undisturbed, folder)
            folder = folder.with_name(f"results-{(ends := ends + 1)}")
    assert trivial.wait_for(trivial.run_in_a_process(SWEEP, folder, launcher=launcher)) == 0
    trivial.check_against(undisturbed, folder)
    return ends


def real_launcher() -> Launcher:
    """Start ranks in processes of their own, from a server that has no torch to load."""
    return Launcher(rank_function=trivial.run_rank, preload=("tests.integration.trivial",))


@pytest.mark.parametrize(("kills", "real_ranks"), [(20, False), (10, True)])
def test_thirty_random_kills_lose_nothing(tmp_path: Path, kills: int, real_ranks: bool) -> None:
    """Ten with ranks of their own, twenty without: thirty of the 500 that `make soak` does."""
    trivial.run(SWEEP, tmp_path / "undisturbed")
    kill_at_random(tmp_path / "undisturbed", tmp_path / "results", kills, seed=6, longest_s=0.8, real_ranks=real_ranks)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_five_hundred_random_kills_lose_nothing(tmp_path: Path) -> None:
    """R1: over a sweep of thirty trials, again and again."""
    trivial.run(SWEEP, tmp_path / "undisturbed")
    kill_at_random(tmp_path / "undisturbed", tmp_path / "results", 250, seed=1, longest_s=1.0, real_ranks=False)
    kill_at_random(tmp_path / "undisturbed", tmp_path / "others", 250, seed=2, longest_s=1.5, real_ranks=True)
