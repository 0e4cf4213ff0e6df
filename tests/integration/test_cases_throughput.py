"""Public bug reports about throughput, on real launches: spans add up, threads are the same and are told."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from bench.measure.host import usable_cores

pytestmark = pytest.mark.slow


def test_spans_of_a_launch_fit_into_its_wall_time(lab: Any) -> None:
    """Updates fit into the launch, the timed part into the updates, and rate x seconds = tokens (case 64).

    https://github.com/NVIDIA-NeMo/Speech/issues/12727
    """
    lab.run(lab.sweep())
    updates = pd.read_parquet(lab.folder / "results" / "updates.parquet")
    for row in lab.rows().itertuples():
        mine = updates[updates["trial_id"] == row.trial_id]
        assert row.timed_s <= mine["seconds"].sum() <= row.launch_s
        # What lies between two updates is timed too: little, but not on a machine that gives this process no turn.
        assert 0 < mine.loc[mine["phase"] == "timed", "seconds"].sum() <= row.timed_s * (1 + 1e-9)
        assert row.valid_tokens_per_s * row.timed_s == pytest.approx(row.valid_tokens)
        assert row.timed_cpu_s > 0
        assert row.started_utc is not None


@pytest.mark.ddp
@pytest.mark.parametrize("asked", [1, None])
def test_threads_of_a_rank_are_stated_for_every_world_size(lab: Any, asked: int | None) -> None:
    """As asked, or the cores divided; never what a launcher sets behind everyone's back (case 65).

    https://github.com/pytorch/pytorch/pull/22501
    """

    def two_worlds(document: dict[str, Any]) -> None:
        del document["base"]["cpu_threads_per_rank"]
        document["base"] |= {"micro_batch_size": 1} | ({} if asked is None else {"cpu_threads_per_rank": asked})
        document["axes"] = {"world_size": [1, 2]}

    lab.run(lab.sweep(two_worlds))
    threads = lab.rows().set_index("world_size")["threads_per_rank"].to_dict()
    assert threads == {ranks: asked or max(1, usable_cores() // ranks) for ranks in (1, 2)}
