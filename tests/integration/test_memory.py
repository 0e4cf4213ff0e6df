"""Memory of real launches: parts of the peak over ranks, what a failed launch leaves, and who needs the most."""

from __future__ import annotations

from typing import Any

import pytest

from bench.record.columns.memory import PARTS_OF_THE_PEAK
from tests.integration.trivial import PATIENT

pytestmark = pytest.mark.slow

MEBI = 1 << 20


def short(document: dict[str, Any]) -> None:
    document["measure"] = {"warmup_updates": 0, "updates": 1, "quality_updates": 0, **PATIENT}


@pytest.mark.ddp
@pytest.mark.parametrize("sync", ["last", "every"])
def test_parts_add_up_on_two_ranks_and_buckets_are_the_size_of_the_gradients(lab: Any, sync: str) -> None:
    """DistributedDataParallel's second copy of the gradients has a name of its own (case 39)."""

    def two_ranks(document: dict[str, Any]) -> None:
        short(document)
        document["base"].update(world_size=2, global_batch_size=8, gradient_sync=sync)
        document["axes"] = {"micro_batch_size": [1, 4]}

    lab.run(lab.sweep(two_ranks))
    rows = lab.rows()
    assert rows["outcome"].tolist() == ["ok", "ok"]
    for row in rows.to_dict("records"):
        assert sum(row[part] for part in PARTS_OF_THE_PEAK) == row["peak_allocated_bytes"]
        assert row["ddp_bucket_bytes"] == row["gradient_bytes"]
        assert len(row["host_peak_rss_bytes_per_rank"]) == 2
        assert row["fits"]


@pytest.mark.ddp
def test_peak_of_the_row_is_that_of_the_rank_that_needs_more(lab: Any) -> None:
    """Case 53: rank 1 holds 300 MiB more in the last of the witnessed updates, which are 5 and 6 of two micro-steps.

    https://github.com/allenai/allennlp/issues/4318
    """

    def two_ranks(document: dict[str, Any]) -> None:
        short(document)
        document["base"].update(world_size=2, global_batch_size=4)
        document["axes"] = {"micro_batch_size": [1]}

    lab.run(lab.sweep(two_ranks), "forward@1:13:hold_memory")
    row = lab.rows().loc[1]
    less, more = row["peak_allocated_bytes_per_rank"]
    assert abs(more - less - 300 * MEBI) < 4096, "the ranks' windows of ragged rows differ a little"
    assert row["peak_allocated_bytes"] == more
    assert sum(row[part] for part in PARTS_OF_THE_PEAK) == more


def test_launch_after_one_that_ran_out_of_memory_takes_what_it_takes_alone(lab: Any) -> None:
    """Case 42: nothing of the failed one is left, since the next one has a process of its own.

    https://github.com/pytorch/pytorch/issues/10348
    """
    one = lab.sweep(lambda document: (short(document), document.update(axes={"micro_batch_size": [2]})))
    lab.run(one)
    alone = lab.rows().loc[2, "peak_allocated_bytes"]
    lab.folder = lab.folder / "both"
    lab.folder.mkdir()
    both = lab.sweep(lambda document: (short(document), document.update(axes={"micro_batch_size": [4, 2]})))
    lab.run(both, "forward:5:oom_above=2")
    rows = lab.rows()
    assert rows.loc[[4, 2], "outcome"].tolist() == ["oom", "ok"]
    assert rows.loc[2, "peak_allocated_bytes"] == alone
    assert not rows.loc[4, "fits"]


def test_micro_batch_that_does_not_fit_is_a_row_and_never_halved_behind_its_name(lab: Any) -> None:
    """Case 55: eight sequences times two steps stay that; nobody retries with another global batch.

    https://github.com/EuroEval/EuroEval/pull/69 https://github.com/huggingface/accelerate/pull/4013
    """
    sweep = lab.sweep(
        lambda document: (short(document), document.update(axes={"micro_batch_size": [8]})), global_batch_size=16
    )
    assert lab.run(sweep, "forward:1:oom_above=2").launched == 1
    rows = lab.rows().reset_index()
    assert rows[["micro_batch_size", "accumulation_steps", "global_batch_size", "outcome"]].values.tolist() == [
        [8, 2, 16, "oom"]
    ]
