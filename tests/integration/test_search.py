"""`{max: N}` with real ranks: the largest micro-batch under a planted capacity, every probe a row."""

from __future__ import annotations

from typing import Any

import pytest

from bench.record.fit import HEADROOM
from tests.integration.trivial import PATIENT

pytestmark = pytest.mark.slow


def free_batch(largest: int) -> Any:
    def change(document: dict[str, Any]) -> None:
        del document["base"]["global_batch_size"]
        document["base"]["accumulation_steps"] = 2
        document["base"]["data"] = {"synthetic": {"documents": 400, "mean_tokens": 20}, "rows": "padded"}
        document["axes"] = {"micro_batch_size": {"max": largest}}
        document["measure"] = {"warmup_updates": 0, "updates": 1, "quality_updates": 0, **PATIENT}

    return change


def test_largest_micro_batch_under_a_planted_capacity_is_found_by_its_bytes(lab: Any) -> None:
    """Peaks are measured, the limit is planted between those of 41 and 42 sequences; a resume runs nothing.

    The size after the largest ends well, but leaves less than the headroom free: its row does not fit.
    """
    lab.run(
        lab.sweep(lambda document: (free_batch(64)(document), document.update(axes={"micro_batch_size": [41, 42]})))
    )
    peaks = lab.rows()["peak_allocated_bytes"]
    capacity = int(int(peaks[41] + peaks[42]) // 2 / (1 - HEADROOM))
    lab.folder = lab.folder / "search"
    lab.folder.mkdir()
    sweep = lab.sweep(free_batch(64))
    summary = lab.run(sweep, f"capacity:1:bytes={capacity}")
    rows = lab.rows()
    assert rows.index[rows["fits"].eq(True)].max() == 41
    assert rows.loc[42, ["outcome", "fits"]].tolist() == ["ok", False]
    assert len(rows) == summary.launched <= 7
    assert lab.run(sweep, f"capacity:1:bytes={capacity}").launched == 0


def test_limit_that_no_figure_foretells_is_found_all_the_same(lab: Any) -> None:
    """Out of memory above eleven sequences, on a machine whose capacity says nothing of it.

    Later rounds measure every size that fitted again, so that all of them compare by round.
    """
    summary = lab.run(lab.sweep(free_batch(16)), "forward:1:oom_above=11")
    rows = lab.rows()
    assert rows.index[rows["outcome"] == "ok"].max() == 11
    assert rows.loc[12, "outcome"] == "oom"
    assert summary.launched <= 7

    def second_round(document: dict[str, Any]) -> None:
        free_batch(16)(document)
        document["measure"]["rounds"] = 2

    fitted = sorted(rows.index[rows["outcome"] == "ok"])
    assert lab.run(lab.sweep(second_round), "forward:1:oom_above=11").launched == len(fitted) >= 3
    table = lab.rows().reset_index()
    assert sorted(table[table["round"] == 1]["micro_batch_size"]) == fitted
    assert lab.run(lab.sweep(second_round), "forward:1:oom_above=11").launched == 0


@pytest.mark.ddp
def test_ranks_agree_on_the_limit_although_only_one_of_them_meets_it(lab: Any) -> None:
    """The candidates divide the global batch over both ranks; the driver decides for all."""

    def two_ranks(document: dict[str, Any]) -> None:
        document["base"].update(world_size=2, global_batch_size=16)
        document["axes"] = {"micro_batch_size": {"max": 256}}
        document["measure"] = {"warmup_updates": 0, "updates": 1, "quality_updates": 0, **PATIENT}

    lab.run(lab.sweep(two_ranks), "forward@1:1:oom_above=2")
    rows = lab.rows()
    assert set(rows.index) <= {1, 2, 4, 8}
    assert rows.loc[[2, 4], "outcome"].tolist() == ["ok", "oom"]
    assert rows.loc[4, "failing_rank"] == 1
    assert rows.loc[8, "outcome"] == "oom", "one accumulation step is a class of its own, and is tried"
