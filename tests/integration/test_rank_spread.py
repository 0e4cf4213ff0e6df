"""A rank that is slower than the others shows in its micro-steps, on real ranks whose clocks are counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rank_pool import RankPool

pytestmark = [pytest.mark.slow, pytest.mark.ddp]
FIXED = {"warmup_updates": 1, "updates": 2}


@pytest.fixture(scope="module")
def pool() -> Iterator[RankPool]:
    """Keep three ranks for the tests of this file."""
    pool = RankPool(3)
    yield pool
    pool.close()


def spreads(pool: RankPool, folder: Path, ticks_s: tuple[float, ...], **job: Any) -> list[tuple[float | None, bool]]:
    """Measure on ranks whose micro-steps take so long, and which wait for each other; give spread and flag of each."""
    job = {"accumulation_steps": 4, "measure": FIXED, **job}
    job["update_s"] = 1.5 * job["accumulation_steps"] * max(ticks_s)
    per_rank = [{"tick_s": tick_s} for tick_s in ticks_s]
    rows = pool.run("measured", len(ticks_s), per_rank, cache=str(folder), **job)
    return [(row["micro_step_rank_spread"], "straggler" in row["flags"]) for row in rows]


@pytest.mark.parametrize(("slowest_s", "is_flagged"), [(0.1, False), (0.102, False), (0.103, True), (0.2, True)])
def test_rank_whose_micro_steps_take_over_two_percent_longer_is_a_straggler(
    pool: RankPool, tmp_path: Path, slowest_s: float, is_flagged: bool
) -> None:
    """Whole updates end together on all ranks, whichever is the slowest."""
    found = spreads(pool, tmp_path, (0.1, slowest_s, 0.1))
    assert found == [(pytest.approx(slowest_s / 0.1 - 1, abs=1e-6), is_flagged)] * 3


def test_long_updates_tell_it_from_the_timed_part(pool: RankPool, tmp_path: Path) -> None:
    """Their micro-steps are the samples, far more than those of the memory pass."""
    found = spreads(pool, tmp_path, (1.0, 1.0, 1.1), measure={"preset": "quick"})
    assert found == [(pytest.approx(0.1), True)] * 3


def test_noise_is_no_straggler(pool: RankPool, tmp_path: Path) -> None:
    """Means of a few micro-steps differ by more than two percent, but their intervals overlap; a real one is found."""
    ((spread, is_flagged), *_) = spreads(pool, tmp_path, (0.1, 0.1, 0.1), noise=0.3)
    assert spread is not None
    assert spread > 0.02
    assert not is_flagged
    assert spreads(pool, tmp_path, (0.1, 0.1, 0.4), noise=0.3)[0][1]


@pytest.mark.parametrize("config", [{"accumulation_steps": 2}, {"gradient_sync": "every"}])
def test_spread_is_null_where_every_micro_step_starts_a_window_or_waits_for_the_others(
    pool: RankPool, tmp_path: Path, config: dict[str, Any]
) -> None:
    """What is measured there is no rank's own time."""
    assert spreads(pool, tmp_path, (0.1, 0.1, 0.2), **config) == [(None, False)] * 3
