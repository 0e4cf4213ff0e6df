"""Goal M6: a device with a known update time and noise is measured for what it is; counts are exact."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from bench.measure.cpu_use import CpuCounters
from bench.rank.ranks import Ranks
from bench.rank.timed_columns import timing_of
from benchmarks.simulate import correlated_noise
from tests.planted_launch import PlantedDevice, Seconds, planted, row_of

TOKENS_PER_UPDATE = 4 * 16


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def noisy(seconds: float, sd: float, lag1: float = 0.0, seed: int = 1) -> Seconds:
    """Plant the time of an update: a mean, and noise that may follow itself."""
    noise = correlated_noise(np.random.default_rng(seed), (5000,), lag1)
    return lambda update: seconds * (1 + sd * float(noise[update]))


def nothing(_: int) -> float:
    """Take no time."""
    return 0.0


@pytest.mark.parametrize(
    ("measure", "sd", "error"),
    [
        ({"preset": "quick"}, 0.005, 0.005),
        ({"preset": "normal"}, 0.01, 0.005),
        ({"preset": "strict"}, 0.02, 0.005),
        ({"warmup_updates": 3, "updates": 400}, 0.03, 0.005),
    ],
)
def test_planted_update_time_is_measured(measure: dict[str, Any], sd: float, error: float) -> None:
    """The rate is that of the planted mean, and the row says how well it is known."""
    bench, _ = planted(measure, nothing, noisy(0.1, sd))
    row, updates, observed = row_of(bench)
    timed = [update for update in updates if update["phase"] == "timed"]
    assert row["outcome"] == "ok"
    assert row["valid_tokens_per_s"] == pytest.approx(TOKENS_PER_UPDATE / 0.1, rel=error)
    assert row["valid_tokens"] == TOKENS_PER_UPDATE * len(timed)
    assert row["updates_attempted"] == row["updates_applied"] == len(timed)
    assert row["timed_s"] == pytest.approx(sum(update["seconds"] for update in timed))
    assert row["segments"] == len(list(observed.part("timed")))
    assert row["target_half_width"] is None or row["half_width"] <= row["target_half_width"]
    assert row["stop_reason"] == ("precision" if "preset" in measure else "fixed")
    assert row["flags"] == []


def test_planted_noise_is_measured() -> None:
    """Standard deviation within 5 %, correlation of neighbours within 0.1."""
    bench, _ = planted({"warmup_updates": 3, "updates": 1500}, nothing, noisy(0.1, 0.02, lag1=0.6))
    row, _, _ = row_of(bench)
    assert row["spread"] == pytest.approx(0.02, rel=0.05)
    assert row["lag1"] == pytest.approx(0.6, abs=0.1)


def test_every_update_of_the_launch_is_in_the_table_once() -> None:
    """First, memory, quality, warm-up and timed, numbered without a gap; none of the earlier ones is in the rate."""
    slow_start = noisy(0.1, 0.001)
    bench, _ = planted(
        {"preset": "quick", "quality_updates": 8}, nothing, lambda update: slow_start(update) + 5.0 * (update < 8)
    )
    row, updates, _ = row_of(bench)
    assert [update["update"] for update in updates] == list(range(len(updates)))
    phases = list(dict.fromkeys(update["phase"] for update in updates))
    assert phases == ["first", "memory", "quality", "warmup", "timed", "witness"]
    assert row["launch_updates"] + row["witnessed_updates"] == len(updates)
    assert row["warmup_updates"] == sum(update["phase"] == "warmup" for update in updates)
    assert row["valid_tokens_per_s"] == pytest.approx(TOKENS_PER_UPDATE / 0.1, rel=0.005)
    assert row["final_train_loss"] == 3.0


class Told(Ranks):
    """Be a rank that hears from rank 0 what the script says."""

    script: Iterator[float]

    def from_rank0(self, value: float) -> float:
        """Give what rank 0 said, whatever this rank would have said."""
        del value
        return next(self.script)


def test_a_rank_runs_what_rank_0_says() -> None:
    """An estimate, then the updates of the warm-up and of the segments, each ended by 0."""
    bench, _ = planted({"preset": "quick"}, nothing, noisy(0.1, 0.3))
    bench.ranks = Told(0, 1, None)
    Told.script = iter([0.1, 7, 4, 0, 5, 3, 0])
    row, updates, observed = row_of(bench)
    assert [len(part.samples) for part in observed.part("warmup")] == [7, 4]
    assert [len(part.samples) for part in observed.part("timed")] == [5, 3]
    assert (row["segments"], row["updates_attempted"], len(updates)) == (2, 8, 4 + 11 + 8 + 1)


def test_a_transient_is_left_to_the_warm_up() -> None:
    """Updates that get faster by a third over the first tens are waited out."""
    steady = noisy(0.1, 0.001)
    bench, _ = planted({"preset": "normal"}, nothing, lambda update: steady(update) * (1 + 0.3 * np.exp(-update / 6)))
    row, _, _ = row_of(bench)
    assert row["valid_tokens_per_s"] == pytest.approx(TOKENS_PER_UPDATE / 0.1, rel=0.002)
    assert row["flags"] == []


def test_time_outside_the_marks_is_in_the_rate_and_raises_the_flag() -> None:
    """The host's clock counts; that the device's marks tell another story is said."""
    bench, device = planted({"preset": "quick"}, nothing, noisy(0.1, 0.001))
    device.edge_s = 0.01
    row, _, _ = row_of(bench)
    assert "clock_mismatch" in row["flags"]
    assert row["valid_tokens_per_s"] < 0.995 * TOKENS_PER_UPDATE / 0.1


def test_noise_beyond_the_preset_is_flagged() -> None:
    """The figure is kept."""
    bench, _ = planted({"preset": "quick"}, nothing, noisy(0.1, 0.3))
    row, _, _ = row_of(bench)
    assert {"not_steady", "precision_not_met"} <= {*row["flags"]}
    assert row["stop_reason"] == "cap"
    assert row["half_width"] > 0.02


def test_more_memory_in_the_timed_part_than_in_the_memory_pass_is_flagged_and_reported() -> None:
    """The larger of the two is the row's."""
    bench, device = planted({"preset": "quick"}, nothing, noisy(0.1, 0.001))
    held = device.allocator.allocated
    bench.loop._update_s = spiking(device, requested=5000, rounding=0)  # type: ignore[attr-defined]
    row, _, _ = row_of(bench)
    assert row["flags"] == ["mem_unstable"]
    assert row["peak_requested_bytes"] == row["peak_allocated_bytes"] == held + 5000
    assert row["peak_phase"] is None, "the memory pass did not reach it, so nothing is known of it"


def test_blocks_that_the_allocator_left_whole_are_not_the_launchs_doing() -> None:
    """The same bytes are requested; what is given beyond them depends on what came before, so it raises no flag."""
    bench, device = planted({"preset": "quick"}, nothing, noisy(0.1, 0.001))
    held = device.allocator.allocated
    bench.loop._update_s = spiking(device, requested=1000, rounding=4000)  # type: ignore[attr-defined]
    row, _, _ = row_of(bench)
    assert row["flags"] == []
    assert (row["peak_requested_bytes"], row["peak_allocated_bytes"]) == (held + 1000, held + 5000)
    assert row["allocator_rounding_bytes"] == 4000
    assert row["peak_phase"] == "update"


def spiking(device: PlantedDevice, requested: int, rounding: int) -> Callable[[int], float]:
    """Take 1000 bytes for a moment in each update; once, in the timed part, so many and what they are rounded to."""

    def update_s(update: int) -> float:
        for count, more in ((1000, 0), (requested, rounding))[: 2 if update == 35 else 1]:
            device.allocator.allocate(count, more)
            device.allocator.free(count, rounding=more)
        return 0.1

    return update_s


def test_others_on_our_cores_are_flagged_though_the_interval_is_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of two cores, evenly: no update tells, the kernel does."""
    monkeypatch.setattr("bench.rank.timed_columns.usable_cores", lambda: 2)
    bench, device = planted({"preset": "quick"}, nothing, noisy(0.1, 0.001))
    device.counters = lambda now_s: CpuCounters(2.0 * now_s, 0.02 * now_s, now_s, {1: (now_s, 3 * now_s)}, 0.01 * now_s)
    row, _, _ = row_of(bench)
    assert row["others_cpu_share"] == pytest.approx(0.5)
    assert row["steal_share"] == pytest.approx(0.01)
    assert row["cpu_wait_share"] == pytest.approx(0.75)
    assert row["cpu_throttled_share"] == pytest.approx(0.01)
    assert row["flags"] == ["host_busy"]
    assert row["half_width"] < 0.02


def test_kernel_that_tells_nothing_of_its_cores_leaves_nulls_and_no_flag() -> None:
    """Elsewhere than on Linux."""
    bench, _ = planted({"preset": "quick"}, nothing, noisy(0.1, 0.001))
    row, _, _ = row_of(bench)
    assert row["flags"] == []
    assert {row[name] for name in ("others_cpu_share", "steal_share", "cpu_wait_share", "cpu_throttled_share")} == {
        None
    }


LONG: dict[str, Any] = {"global_batch_size": 128, "accumulation_steps": 64, "micro_batch_size": 2}


def test_long_updates_are_sampled_by_their_micro_steps() -> None:
    """An update of 3.6 s: three whole ones are enough, for the micro-steps between them tell the spread."""
    noise = np.random.default_rng(2).standard_normal(100_000)
    drawn = iter(noise)
    bench, _ = planted({"preset": "normal"}, lambda _: 0.05 * (1 + 0.01 * next(drawn)), lambda _: 0.4, **LONG)
    row, updates, observed = row_of(bench)
    assert row["updates_attempted"] == 3
    assert row["micro_step_s"] == pytest.approx(0.05, rel=0.003)
    assert row["update_step_s"] == pytest.approx(0.4, rel=0.05)
    assert row["spread"] == pytest.approx(0.01, rel=0.15)
    assert row["valid_tokens_per_s"] == pytest.approx(128 * 16 / 3.6, rel=0.003)
    assert (row["time_method"], row["flags"]) == ("cuda_events", [])
    assert observed.pace.by_micro_steps
    assert {update["sequences"] for update in updates} == {128}


def test_updates_too_long_for_three_are_shortened_and_extrapolated() -> None:
    """An update of 65.6 s that holds 64 micro-steps; windows of nine tell the same rate, and losses are left null."""
    bench, _ = planted({"preset": "normal", "quality_updates": 5}, lambda _: 1.0, lambda _: 1.6, **LONG)
    row, updates, _ = row_of(bench)
    assert row["time_method"] == "extrapolated"
    assert {update["sequences"] for update in updates if update["phase"] in {"first", "memory"}} == {128}
    assert {update["sequences"] for update in updates if update["phase"] == "timed"} == {2 * 9}
    assert {update["sequences"] for update in updates if update["phase"] == "confirm"} == {2 * 18}
    assert [update["sequences"] for update in updates if update["phase"] == "whole"] == [128]
    assert row["whole_update_s"] == pytest.approx(65.6)
    assert row["valid_tokens_per_s"] == pytest.approx(128 * 16 / 65.6)
    assert row["update_s_median"] == pytest.approx(65.6)
    assert (row["micro_step_s"], row["update_step_s"]) == (pytest.approx(1.0), pytest.approx(1.6))
    assert (row["outcome"], row["flags"]) == ("ok", [])
    assert row["final_train_loss"] is None
    assert row["validation_loss"] is None
    losses = {phase: {u["train_loss"] is None for u in updates if u["phase"] == phase} for phase in ("first", "timed")}
    assert losses == {"first": {False}, "timed": {True}}
    assert {update["train_loss"] for update in updates if update["phase"] in {"warmup", "confirm", "whole"}} <= {None}
    assert row["windows_partial"] == 0


@pytest.mark.parametrize(("quality_updates", "kept"), [(3, (True, True)), (4, (False, True)), (5, (False, False))])
def test_quality_before_windows_are_shortened_is_kept(quality_updates: int, kept: tuple[bool, bool]) -> None:
    """Updates 0 to 3 are of full windows, and so are the parameters that update 4 starts from."""
    bench, _ = planted({"preset": "normal", "quality_updates": quality_updates}, lambda _: 1.0, lambda _: 1.6, **LONG)
    row, _, _ = row_of(bench)
    assert row["time_method"] == "extrapolated"
    assert (row["final_train_loss"] is not None, row["validation_loss"] is not None) == kept


def test_micro_steps_that_get_slower_break_the_law_and_are_flagged() -> None:
    """What short windows tell is then not what long ones take."""
    bench, _ = planted({"preset": "normal"}, lambda step: 1.0 + 0.02 * step, lambda _: 1.6, **LONG)
    row, _, _ = row_of(bench)
    assert row["time_method"] == "extrapolated"
    assert "law_not_met" in row["flags"]


@pytest.mark.parametrize(
    ("preset", "accumulation_steps", "micro_step_s"), [("normal", 64, 1.0), ("quick", 64, 0.3), ("normal", 512, 0.3)]
)
@pytest.mark.parametrize("window_mode", ["buffered", "streamed"])
def test_micro_steps_that_get_slower_beyond_all_shortened_windows_are_seen_by_a_whole_one(
    preset: str, accumulation_steps: int, micro_step_s: float, window_mode: str
) -> None:
    """Three times slower from number 32 on: the rate is that of the whole window, and the row says why."""
    steps = [micro_step_s * (1 if step < 32 else 3) for step in range(accumulation_steps)]
    bench, _ = planted(
        {"preset": preset, "timeout_s": 7200.0},
        lambda step: steps[step],
        lambda _: 1.6,
        global_batch_size=2 * accumulation_steps,
        accumulation_steps=accumulation_steps,
        micro_batch_size=2,
        window_mode=window_mode,
    )
    row, _, observed = row_of(bench)
    assert observed.pace.confirming_micro_steps <= 32, "else longer windows would have seen it"
    assert row["time_method"] == "extrapolated"
    assert row["whole_update_s"] == pytest.approx(sum(steps) + 1.6)
    assert row["valid_tokens_per_s"] == pytest.approx(2 * accumulation_steps * 16 / (sum(steps) + 1.6))
    assert "law_not_met" in row["flags"]
    assert row["half_width"] is None
    assert row["outcome"] == "ok"


def test_time_limit_that_leaves_no_room_for_a_whole_window_is_said() -> None:
    """What shortened windows leave out is then not known."""
    slow = {"preset": "normal", "timeout_s": 450.0}
    bench, _ = planted(slow, lambda step: 1.0 if step < 32 else 3.0, lambda _: 1.6, **LONG)
    row, updates, _ = row_of(bench)
    assert not [update for update in updates if update["phase"] == "whole"]
    assert row["whole_update_s"] is None
    assert "whole_window_unseen" in row["flags"]


def test_longer_windows_that_are_whole_confirm_by_themselves() -> None:
    """Where twice a shortened window is a full one there is nothing left to see."""
    few: dict[str, Any] = {"global_batch_size": 16, "accumulation_steps": 8, "micro_batch_size": 2}
    bench, _ = planted({"preset": "normal"}, lambda _: 2.0, lambda _: 1.6, **few)
    row, updates, observed = row_of(bench)
    assert observed.pace.confirming_micro_steps == 8
    assert {update["sequences"] for update in updates if update["phase"] == "confirm"} == {16}
    assert not [update for update in updates if update["phase"] == "whole"]
    assert row["whole_update_s"] == pytest.approx(17.6)
    assert not {"law_not_met", "whole_window_unseen"} & {*row["flags"]}


def test_a_fixed_length_is_never_shortened() -> None:
    """It was asked for."""
    bench, _ = planted({"warmup_updates": 0, "updates": 2}, lambda _: 1.0, lambda _: 1.6, **LONG)
    row, updates, _ = row_of(bench)
    assert {update["sequences"] for update in updates} == {128}
    assert (row["time_method"], row["micro_step_s"], row["flags"]) == ("cuda_events", None, ["few_updates"])


def test_streamed_windows_are_shortened_too() -> None:
    """They are cut as they are read."""
    bench, _ = planted({"preset": "normal"}, lambda _: 1.0, lambda _: 1.6, window_mode="streamed", **LONG)
    row, updates, _ = row_of(bench)
    assert {update["sequences"] for update in updates if update["phase"] == "timed"} == {2 * 9}
    assert row["valid_tokens_per_s"] == pytest.approx(128 * 16 / 65.6)


def test_edges_of_the_timed_part_hold_all_of_it_and_nothing_else() -> None:
    """What telemetry is held against: the planted clock from the first segment's begin to the last one's end."""
    bench, device = planted({"warmup_updates": 2, "updates": 10}, nothing, lambda _: 0.5)
    device.now_s = 100.0
    row, _, observed = row_of(bench)
    timing = timing_of(observed)
    before = sum(len(list(observed.samples(name))) for name in ("first", "memory", "quality", "warmup"))
    assert timing["timed_from_s"] == pytest.approx(100.0 + 0.5 * before)
    assert timing["timed_to_s"] - timing["timed_from_s"] == pytest.approx(row["timed_s"])
    assert timing["pid"] == os.getpid()
    assert timing["reserved_bytes"] == list(observed.part("timed"))[-1].peaks.reserved_bytes
    assert timing["held_from_s"] == pytest.approx(100.5), "the planted allocator holds the same throughout"
    assert timing["held_to_s"] == timing["timed_to_s"]


def test_memory_outside_torch_is_told_while_the_allocator_holds_the_same() -> None:
    """It grows in the second update and after the timed part: in between it holds what it holds at the last edge."""
    bench, device = planted({"warmup_updates": 2, "updates": 2, "quality_updates": 9}, nothing, lambda _: 0.5)

    def update_s(update: int) -> float:
        if update in (1, 8):
            device.allocator.allocate(1 << 20)
        return 0.5

    bench.loop._update_s = update_s  # type: ignore[attr-defined]
    _, _, observed = row_of(bench)
    timing = timing_of(observed)
    assert (timing["timed_from_s"], timing["timed_to_s"]) == (pytest.approx(3.0), pytest.approx(4.0))
    assert (timing["held_from_s"], timing["held_to_s"]) == (pytest.approx(1.0), pytest.approx(4.0))
