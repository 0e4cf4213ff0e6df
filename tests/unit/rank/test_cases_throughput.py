"""Public bug reports about throughput, on planted times: what is divided by what, and what is flagged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from bench.loop import AccumulationLoop, GradientSync, Precision, SummedCrossEntropy
from bench.loop.switches import read_switches
from bench.measure.cpu import CpuDevice
from bench.measure.profiler import Profiler
from bench.rank import feed as feed_module
from bench.rank.columns import facts_before
from bench.record.derive import derive
from bench.record.reduce import reduce_ranks
from bench.statistics import health
from bench.workload import micro_batches
from tests.planted_launch import planted, row_of

FIXED: dict[str, Any] = {"warmup_updates": 2, "updates": 20}


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def nothing(_: int) -> float:
    """Take no time."""
    return 0.0


@pytest.mark.parametrize("accumulation_steps", [1, 4, 8])
def test_tokens_of_a_window_are_divided_by_the_time_of_that_window(accumulation_steps: int) -> None:
    """20 ms for each micro-batch of 32 tokens is 1600 tokens/s, however many a window has (case 59).

    https://github.com/karpathy/nanochat/pull/175
    https://github.com/axolotl-ai-cloud/axolotl/issues/3688
    """
    sizes = {"micro_batch_size": 2, "accumulation_steps": accumulation_steps}
    bench, _ = planted(FIXED, lambda _: 0.02, nothing, global_batch_size=2 * accumulation_steps, **sizes)
    row, _, _ = row_of(bench)
    assert row["valid_tokens_per_s"] == pytest.approx(1600.0)


def test_padding_counts_as_slots_and_never_as_valid_tokens() -> None:
    """Padded and ragged rows of the same documents hold the same valid tokens in unequal slots (case 60).

    https://github.com/awslabs/sockeye/issues/1073
    https://github.com/meta-pytorch/torchtune/issues/2296
    """
    rows = {}
    for kind in ("padded", "ragged"):
        data = {"synthetic": {"documents": 300, "mean_tokens": 12}, "rows": kind}
        rows[kind], _, _ = row_of(planted(FIXED, lambda _: 0.02, nothing, data=data)[0])
    padded, ragged = rows["padded"], rows["ragged"]
    assert padded["valid_tokens"] == ragged["valid_tokens"] < ragged["token_slots"] < padded["token_slots"]
    assert padded["token_slots"] == 20 * 4 * 16
    for row in rows.values():
        assert row["valid_tokens_per_s"] == pytest.approx(row["valid_tokens"] / 0.8)
        assert row["token_slots_per_s"] == pytest.approx(row["token_slots"] / 0.8)


def test_a_mask_changes_the_rate_of_valid_tokens_and_not_that_of_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a quarter of the targets valid the two rates differ by four; the slots stay (case 60).

    https://github.com/meta-pytorch/torchtune/issues/2296
    """
    whole, _, _ = row_of(planted(FIXED, lambda _: 0.02, nothing)[0])
    fill = micro_batches._fill

    def masked(*arguments: Any) -> Any:
        made = fill(*arguments)
        made.targets[:, torch.arange(made.targets.shape[1]) % 4 != 0] = micro_batches.IGNORED_TARGET
        valid = int((made.targets != micro_batches.IGNORED_TARGET).sum())
        return replace(made, valid_targets=valid, unit_sum=float(valid))

    monkeypatch.setattr(micro_batches, "_fill", masked)
    row, _, _ = row_of(planted(FIXED, lambda _: 0.02, nothing)[0])
    assert row["token_slots_per_s"] == pytest.approx(whole["token_slots_per_s"])
    assert row["valid_tokens_per_s"] == pytest.approx(row["token_slots_per_s"] / 4)


def test_rate_of_two_ranks_is_all_tokens_over_the_time_of_the_slower() -> None:
    """100 tokens each, 20 ms on one and 40 ms on the other: 5000 tokens/s, not 7500; 2500 per rank (case 61).

    https://github.com/InternLM/xtuner/issues/967
    https://github.com/ultralytics/yolov5/issues/8892
    """
    documents = [
        {"rank": rank, "columns": {"valid_tokens": 100, "timed_s": seconds}, "updates": []}
        for rank, seconds in ((0, 0.02), (1, 0.04))
    ]
    row, updates = reduce_ranks(documents)
    row = derive({**row, "world_size": 2, "outcome": "ok"}, updates)
    assert row["valid_tokens_per_s"] == pytest.approx(5000.0)
    assert row["valid_tokens_per_s_per_gpu"] == pytest.approx(2500.0)
    assert row["timed_s_per_rank"] == [0.02, 0.04]


def test_a_slow_first_forward_is_in_the_first_update_alone() -> None:
    """Half a second of compilation is not in the rate (case 62).

    https://github.com/ecmwf/anemoi-core/pull/1254
    https://github.com/alpa-projects/alpa/issues/823
    """
    bench, _ = planted(FIXED, nothing, lambda update: 0.1 + 0.5 * (update == 0))
    row, _, _ = row_of(bench)
    assert row["first_update_s"] == pytest.approx(0.6)
    assert row["valid_tokens_per_s"] == pytest.approx(640.0)


def test_data_shorter_than_the_warm_up_are_repeated() -> None:
    """Two windows of data, 22 updates: epoch after epoch, and no division by zero (case 62).

    https://github.com/bytedance/jaqmc/pull/34
    """
    data = {"synthetic": {"documents": 300, "mean_tokens": 12}, "rows": "packed", "sequences_per_epoch": 8}
    row, updates, _ = row_of(planted(FIXED, nothing, lambda _: 0.1, data=data)[0])
    assert (row["outcome"], row["updates_attempted"], row["windows_partial"]) == ("ok", 20, 0)
    assert {update["sequences"] for update in updates} == {4}
    assert row["valid_tokens_per_s"] == pytest.approx(640.0)


def test_waiting_for_data_is_counted_and_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 ms for each window of 100 ms, and none where nothing is waited for (case 63).

    https://github.com/pytorch/torchtitan/pull/1481
    https://github.com/ServiceNow/Fast-LLM/pull/564
    """
    bench, device = planted(FIXED, lambda _: 0.05, nothing)
    monkeypatch.setattr(feed_module.time, "perf_counter_ns", device.clock)
    read = bench.feed._lay_out

    def slow_read(*arguments: Any) -> Any:
        device.now_s += 0.03
        return read(*arguments)

    monkeypatch.setattr(bench.feed, "_lay_out", slow_read)
    row, _, _ = row_of(bench)
    assert row["data_wait_s"] == pytest.approx(20 * 0.03)
    assert row["data_wait_share"] == pytest.approx(0.03 / 0.13)
    assert "data_bound" in row["flags"]
    bench, device = planted(FIXED, lambda _: 0.05, nothing)
    monkeypatch.setattr(feed_module.time, "perf_counter_ns", device.clock)
    row, _, _ = row_of(bench)
    assert (row["data_wait_s"], row["data_wait_share"], row["flags"]) == (0.0, 0.0, [])


def test_rate_can_be_worked_out_from_the_counts_and_seconds_of_the_file() -> None:
    """Rate x seconds = tokens, and the updates add up to the timed part (case 64).

    https://github.com/NVIDIA-NeMo/Speech/issues/12727
    """
    row, updates, _ = row_of(planted(FIXED, lambda _: 0.03, lambda _: 0.01)[0])
    timed = [update for update in updates if update["phase"] == "timed"]
    assert row["valid_tokens_per_s"] * row["timed_s"] == pytest.approx(row["valid_tokens"])
    assert sum(update["seconds"] for update in timed) == pytest.approx(row["timed_s"])
    assert sum(update["valid_tokens"] for update in timed) == row["valid_tokens"]


def test_threads_are_recorded() -> None:
    """A launcher may set them behind everyone's back (case 65).

    https://github.com/pytorch/pytorch/pull/22501
    """
    assert facts_before(planted(FIXED, nothing, lambda _: 0.1)[0])["threads_per_rank"] >= 1


def test_one_slow_update_leaves_the_median_and_shows_in_spread_and_flags() -> None:
    """300 ms once among updates of 100 ms (case 66).

    https://github.com/AlexsJones/llmfit/pull/821
    """
    bench, _ = planted(FIXED, nothing, lambda update: 0.1 + 0.3 * (update == 15))
    row, _, _ = row_of(bench)
    assert row["update_s_median"] == pytest.approx(0.1)
    assert row["spread"] > 0.5
    assert row["flags"] == ["spiky"]
    assert row["valid_tokens_per_s"] == pytest.approx(20 * 64 / 2.3)


def test_updates_that_the_scaler_skipped_raise_a_flag() -> None:
    """They cost no optimizer step, so the mode looks faster than it is (case 67).

    https://github.com/deepspeedai/DeepSpeed/issues/931
    """
    assert health.flags_of(health.Samples([0.1] * 20, timed_s=2.0, updates_skipped=1)) == ["amp_skips"]


def test_a_scale_that_keeps_overflowing_shows_in_counts_and_flag() -> None:
    """A scale that doubles after every update overflows again and again, in the timed part too (case 67).

    https://github.com/deepspeedai/DeepSpeed/issues/931
    """
    torch.set_num_threads(1)
    bench, _ = planted({"warmup_updates": 2, "updates": 60}, nothing, nothing)
    profiler = Profiler(CpuDevice())
    bench.loop = AccumulationLoop(
        GradientSync(bench.model),
        bench.optimizer,
        SummedCrossEntropy(),
        Precision("fp16", "cpu", growth_interval=1),
        torch.device("cpu"),
        observer=profiler,
    )
    bench.profiler, bench.device, bench.switches = profiler, profiler._device, read_switches("cpu")
    row, updates, _ = row_of(bench)
    assert row["outcome"] == "ok"
    assert "amp_skips" in row["flags"]
    assert row["updates_skipped"] > 0
    assert row["updates_applied"] + row["updates_skipped"] == row["updates_attempted"] == 60
    timed = [update["result"] for update in updates if update["phase"] == "timed"]
    assert timed.count("skipped") == row["updates_skipped"]
