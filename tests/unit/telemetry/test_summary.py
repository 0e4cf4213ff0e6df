"""Figures of energy and health, from samples whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.record.column_types import row_faults
from bench.record.columns import COLUMN_BY_NAME
from bench.telemetry.samples import GpuSample, GpuTrack, RankTiming
from bench.telemetry.summary import summarise
from tests.fake_nvml import GIB, OWN_PID, FakeGpu
from tests.telemetry_script import RESERVED_BYTES, play

NOT_SUPPORTED = 3
NULL_WHEN_REFUSED = {
    "nvmlDeviceGetTotalEnergyConsumption": {"joules_per_gpu"},
    "nvmlDeviceGetPowerUsage": {"power_mean_w"},
    "nvmlDeviceGetClockInfo": {"sm_clock_median_mhz", "sm_clock_min_mhz"},
    "nvmlDeviceGetDefaultApplicationsClock": {"sm_clock_default_mhz"},
    "nvmlDeviceGetMaxClockInfo": {"sm_clock_max_mhz"},
    "nvmlDeviceGetEnforcedPowerLimit": {"power_limit_w"},
    "nvmlDeviceGetPersistenceMode": {"persistence_mode"},
    "nvmlDeviceGetTotalEccErrors": {"ecc_uncorrected_errors"},
    "nvmlDeviceGetMemoryInfo": {"device_used_bytes"},
    "nvmlDeviceGetComputeRunningProcesses": {"foreign_processes", "outside_torch_bytes", "outside_torch_method"},
    "nvmlDeviceGetViolationStatus": set(),
}


def figures(*gpus: FakeGpu, **options: Any) -> dict[str, Any]:
    """Play a launch and give its columns."""
    return play(gpus or [FakeGpu()], **options).columns


def test_figures_of_a_healthy_launch_are_those_of_the_script() -> None:
    """300 W for 6 s, 9 GiB of our process of which torch reserved 8."""
    assert figures() == {
        "joules_per_gpu": pytest.approx(1800.0),
        "power_mean_w": 300.0,
        "power_limit_w": 400.0,
        "sm_clock_median_mhz": 1400.0,
        "sm_clock_min_mhz": 1400.0,
        "sm_clock_default_mhz": 1155,
        "sm_clock_max_mhz": 1410,
        "persistence_mode": True,
        "temperature_start_c": 60,
        "temperature_end_c": 60,
        "temperature_max_c": 60,
        "hw_thermal_share": 0.0,
        "hw_power_brake_share": 0.0,
        "sw_thermal_share": 0.0,
        "sw_power_cap_share": 0.0,
        "clock_setting_share": 0.0,
        "throttle_source": "counters",
        "ecc_uncorrected_errors": 0,
        "foreign_processes": 0,
        "device_used_bytes": 10 * GIB,
        "telemetry_samples": 61,
        "telemetry_gap_s": pytest.approx(0.1),
        "outside_torch_bytes": GIB,
        "outside_torch_method": "process",
        "driver_version": "550.54.15",
        "telemetry_problem": None,
    }


def test_every_figure_fits_a_declared_column() -> None:
    """Names, kinds and the rule: telemetry is set by the driver of the sweep, no rank may report it."""
    columns = figures()
    assert row_faults(COLUMN_BY_NAME, columns) == []
    assert {COLUMN_BY_NAME[name].rule for name in columns} == {"launch"}
    declared = {name for name, column in COLUMN_BY_NAME.items() if column.group == "energy and health"}
    assert declared - columns.keys() == {"joules_per_valid_token"}


@pytest.mark.parametrize("function", NULL_WHEN_REFUSED)
def test_figure_that_a_gpu_does_not_tell_is_null_and_no_other(function: str) -> None:
    """Never 0, and no flag: what is not told is no doubt."""
    health = play([FakeGpu()], refused={function: (0.0, NOT_SUPPORTED)})
    missing = {name for name, value in health.columns.items() if value is None} - {"telemetry_problem"}
    assert missing == NULL_WHEN_REFUSED[function]
    assert health.flags == ()


def test_mean_over_gpus_and_worst_gpu() -> None:
    """Energy and power are means, clocks the slowest one's, heat and reasons the worst one's."""
    hot = FakeGpu(
        "GPU-hot",
        energy_mj=lambda s: int(500_000 * s),
        power_mw=lambda s: 500_000,
        sm_clock_mhz=lambda s: 1200,
        temperature_c=lambda s: 70 + int(s),
        reasons=lambda s: 4 if s >= 5 else 0,
        power_violation_ns=lambda s: int(max(0.0, s - 5) * 1e9),
        processes=lambda s: [(5, 9 * GIB)] if s >= 1 else [],
    )
    columns = figures(FakeGpu(), hot, own_pids=(OWN_PID, 5))
    assert columns["joules_per_gpu"] == pytest.approx(2400.0)
    assert (columns["power_mean_w"], columns["sm_clock_median_mhz"]) == (400.0, 1200.0)
    temperatures = [columns[f"temperature_{name}_c"] for name in ("start", "end", "max")]
    assert temperatures == [72, 78, 78]
    assert columns["sw_power_cap_share"] == pytest.approx(0.5, abs=0.02)
    assert columns == figures(hot, FakeGpu(), own_pids=(5, OWN_PID))


def test_energy_of_all_is_null_when_one_gpu_has_no_counter() -> None:
    """A mean that lacks one is another figure."""

    def refuse(s: float) -> Any:
        import pynvml

        return pynvml.NVMLError(NOT_SUPPORTED)

    other = FakeGpu("GPU-b", energy_mj=refuse, processes=lambda s: [(5, GIB)] if s >= 1 else [])
    assert figures(FakeGpu(), other, own_pids=(OWN_PID, 5))["joules_per_gpu"] is None


@pytest.mark.parametrize(("seconds", "is_told"), [(4.9, False), (5.0, True)])
def test_energy_below_five_seconds_is_null(seconds: float, is_told: bool) -> None:
    """The counter's step would be more than 2 % of it; it is not made up from power either."""
    assert (figures(timed_s=(2.0, 2.0 + seconds))["joules_per_gpu"] is not None) == is_told


def test_launch_that_ends_with_its_timed_part_has_what_was_counted_to_its_end() -> None:
    """The rank is gone before the next sample is due: counters are read once more, and nothing else is."""
    columns = figures(timed_s=(2.0, 9.04), stops_s=9.05)
    assert columns["joules_per_gpu"] == pytest.approx(300.0 * 7.04)
    assert (columns["throttle_source"], columns["telemetry_samples"]) == ("counters", 71)


def test_memory_error_that_ends_the_launch_is_counted() -> None:
    """It came after the last sample."""
    gpu = FakeGpu(ecc_uncorrected=lambda s: int(s > 9.0))
    assert play([gpu], timed_s=None, stops_s=9.05).flags == ("ecc_error",)


def test_temperature_beside_a_short_timed_part_is_that_of_a_sample_that_has_one() -> None:
    """The reading of the counters at the end of the launch has none, though it lies nearest."""
    assert figures(timed_s=(9.02, 9.04), stops_s=9.05)["temperature_end_c"] == 60


def test_persistence_mode_is_off_where_it_is_off_on_one_gpu() -> None:
    """Each start waits for that one."""
    other = FakeGpu("GPU-b", persistence_mode=lambda s: 0)
    assert figures(FakeGpu(), other)["persistence_mode"] is False


def test_gap_in_the_middle_of_the_timed_part_is_a_missing_nvml() -> None:
    """A library that hung and came back: what happened meanwhile is not known, but what was counted is."""
    gaps = [*range(20), *range(70, 100)]
    samples = [GpuSample(k / 10, energy_mj=30_000 * k, sm_clock_mhz=1400) for k in gaps]
    health = summarise([GpuTrack("GPU-a", samples)], [RankTiming(1, "GPU-a", 1.0, 9.0)], [1])
    assert health.flags == ("nvml_missing",)
    assert health.columns["joules_per_gpu"] == pytest.approx(2400.0)


def test_energy_is_null_where_the_counter_was_reset_or_stops() -> None:
    """A driver that was loaded anew, or that stopped telling, has no difference to give."""
    assert figures(FakeGpu(energy_mj=lambda s: int(3e5 * (s if s < 5 else s - 5))))["joules_per_gpu"] is None
    ends = {"nvmlDeviceGetTotalEnergyConsumption": (6.5, NOT_SUPPORTED)}
    assert figures(refused=ends)["joules_per_gpu"] is None


@given(st.floats(0.0, 3.0), st.floats(5.0, 10.0), st.floats(1.0, 1000.0))
def test_energy_is_interpolated_at_both_edges(from_s: float, length_s: float, watt: float) -> None:
    """A steady draw gives power x time, wherever the edges fall between samples."""
    samples = [GpuSample(k * 0.13, energy_mj=round(watt * k * 130)) for k in range(110)]
    rank = RankTiming(1, "GPU-a", from_s, from_s + length_s)
    columns = summarise([GpuTrack("GPU-a", samples)], [rank], [1]).columns
    assert columns["joules_per_gpu"] == pytest.approx(watt * length_s, abs=2e-3)


def test_shares_come_from_the_mask_where_there_are_no_counters() -> None:
    """Marked as polled."""
    gpu = FakeGpu(reasons=lambda s: 4 if s >= 5 else 0)
    columns = figures(gpu, refused={"nvmlDeviceGetViolationStatus": (0.0, NOT_SUPPORTED)})
    assert columns["throttle_source"] == "polled"
    assert columns["sw_power_cap_share"] == pytest.approx(31 / 61)


@pytest.mark.parametrize(("power", "thermal", "source"), [(True, True, "counters"), (True, False, "mixed")])
def test_source_of_the_shares_is_that_of_both(power: bool, thermal: bool, source: str) -> None:
    """Heat may have no counter where power has one."""
    counters = {"power_violation_ns": 0 if power else None, "thermal_violation_ns": 0 if thermal else None}
    track = GpuTrack("GPU-a", [GpuSample(float(second), reasons=0, **counters) for second in range(10)])
    assert summarise([track], [RankTiming(1, "GPU-a", 2.0, 8.0)], [1]).columns["throttle_source"] == source


def test_timed_part_too_short_for_a_sample_has_none_of_others() -> None:
    """What held the clocks back beside it is not its own; heat is slow, so the temperature nearby is told."""
    health = play([FakeGpu(reasons=lambda s: 0x40)], timed_s=(5.01, 5.05))
    columns = health.columns
    assert (columns["telemetry_samples"], columns["sm_clock_median_mhz"], columns["hw_thermal_share"]) == (
        0,
        None,
        None,
    )
    assert [columns[f"temperature_{name}_c"] for name in ("start", "end", "max")] == [60] * 3
    assert health.flags == ("nvml_missing",)
    assert "has no sample" in columns["telemetry_problem"]


def test_temperature_far_from_the_timed_part_is_not_its_own() -> None:
    """More than half a second away."""
    sparse = GpuTrack("GPU-a", [GpuSample(1.0, temperature_c=1), GpuSample(9.0, temperature_c=1)])
    health = summarise([sparse], [RankTiming(1, "GPU-a", 5.0, 5.1)], [1])
    assert (health.columns["temperature_start_c"], health.flags) == (None, ("nvml_missing",))


def test_slow_library_is_no_missing_one() -> None:
    """Samples a few seconds apart are few, and say so; they reach the end of the timed part as well as they can."""
    samples = [GpuSample(second, sm_clock_mhz=1400) for second in (0.0, 4.0, 8.0, 12.0)]
    health = summarise([GpuTrack("GPU-a", samples)], [RankTiming(1, "GPU-a", 1.0, 15.0)], [1])
    assert health.flags == ()
    assert (health.columns["telemetry_samples"], health.columns["telemetry_gap_s"]) == (3, 4.0)


def test_timed_part_runs_from_the_first_edge_to_the_last() -> None:
    """Ranks differ by a little."""
    track = GpuTrack("GPU-a", [GpuSample(float(second), temperature_c=second) for second in range(10)])
    ranks = [RankTiming(1, "GPU-a", 3.0, 6.0), RankTiming(2, "GPU-a", 2.0, 5.0)]
    columns = summarise([track], ranks, [1, 2]).columns
    assert (columns["temperature_start_c"], columns["temperature_end_c"]) == (2, 6)


def test_uuid_that_torch_writes_otherwise_is_the_same_gpu() -> None:
    """Torch writes GPU- before the UUID of a MIG device."""
    track = GpuTrack("MIG-AB", [GpuSample(1.0, temperature_c=50)])
    assert summarise([track], [RankTiming(1, "GPU-ab")], [1]).flags == ()
    assert summarise([track], [RankTiming(1, "GPU-ac")], [1]).flags == ("nvml_missing",)


def test_memory_outside_torch_falls_back_to_the_device() -> None:
    """In a container ids are the host's: the GPU's use less that before the launch less what torch reserved."""
    host_ids = FakeGpu(processes=lambda s: [(31, 9 * GIB)] if s >= 1 else [])
    columns = figures(host_ids)
    assert (columns["outside_torch_bytes"], columns["outside_torch_method"]) == (GIB, "device")
    no_bytes = FakeGpu(processes=lambda s: [(OWN_PID, None)] if s >= 1 else [])
    assert figures(no_bytes)["outside_torch_method"] == "device"


def test_memory_outside_torch_is_null_where_neither_is_known() -> None:
    """A stranger's memory must not count as ours, nor less than nothing as something."""
    stranger = FakeGpu(processes=lambda s: [(31, GIB), (32, GIB)] if s >= 1 else [])
    assert figures(stranger)["outside_torch_bytes"] is None
    shrunk = FakeGpu(processes=lambda s: [(31, GIB)] if s >= 1 else [], used_bytes=lambda s: GIB)
    assert figures(shrunk)["outside_torch_bytes"] is None
    no_baseline = FakeGpu(processes=lambda s: [(31, GIB)] if s >= 1 else [])
    unread = {"nvmlDeviceGetMemoryInfo": (0.0, NOT_SUPPORTED)}
    assert figures(no_baseline, refused=unread)["outside_torch_bytes"] is None


def test_memory_outside_torch_is_a_bound_alone_where_no_process_is_listed() -> None:
    """A stranger may be there unseen: nobody says that none is."""
    columns = figures(FakeGpu(processes=lambda s: []))
    assert [columns[f"outside_torch_{name}"] for name in ("bytes", "method")] == [None, None]


@pytest.mark.parametrize("pid", [OWN_PID, 31], ids=["process", "device"])
@pytest.mark.parametrize("dying", [None, 0, 9 * GIB - GIB // 2], ids=["untold", "nothing", "half gone"])
def test_sample_of_a_dying_process_is_not_what_it_held(pid: int, dying: int | None) -> None:
    """At the end the rank may be on its way out; torch's share does not shrink before."""
    gpu = FakeGpu(
        processes=lambda s: [(pid, 9 * GIB if s <= 8.0 else dying)] if s >= 1 else [],
        used_bytes=lambda s: GIB + (0 if s < 1 else 9 * GIB if s <= 8.0 else dying or 0),
    )
    columns = figures(gpu, timed_s=(2.0, 8.1))
    assert columns["outside_torch_bytes"] == GIB
    assert columns["outside_torch_method"] == ("process" if pid == OWN_PID else "device")


def test_memory_outside_torch_is_the_worst_ranks() -> None:
    """NCCL's buffers need not be alike on all ranks; one that is not known makes it unknown."""
    other = FakeGpu("GPU-b", processes=lambda s: [(5, 11 * GIB)] if s >= 1 else [])
    assert figures(FakeGpu(), other, own_pids=(OWN_PID, 5))["outside_torch_bytes"] == 3 * GIB
    silent = replace(other, processes=lambda s: [(5, None)] if s >= 1 else [], used_bytes=lambda s: GIB)
    assert figures(FakeGpu(), silent, own_pids=(OWN_PID, 5))["outside_torch_bytes"] is None


def test_bytes_of_the_process_are_those_at_the_end_of_the_timed_part() -> None:
    """What it takes right after, for the witnessed updates, is not held against what torch reserved before."""
    grows = FakeGpu(processes=lambda s: [(OWN_PID, (9 if s <= 8.0 else 20) * GIB)] if s >= 1 else [])
    assert figures(grows)["outside_torch_bytes"] == 9 * GIB - RESERVED_BYTES


def test_samples_while_torch_held_the_same_count_outside_a_short_timed_part_too() -> None:
    """A timed part without a sample: the memory pass before it held as much, and what comes later holds more."""
    grows = FakeGpu(processes=lambda s: [(OWN_PID, (5 if s < 3 else 9 if s <= 5 else 20) * GIB)] if s >= 1 else [])
    short = (4.01, 4.02)
    assert figures(grows, timed_s=short)["outside_torch_bytes"] is None
    told = figures(grows, timed_s=short, held_from_s=3.0, held_to_s=4.5)
    assert told["outside_torch_bytes"] == 9 * GIB - RESERVED_BYTES


def test_launch_that_was_not_timed_has_what_needs_no_edges() -> None:
    """An out-of-memory error shows how full the GPU was."""
    columns = figures(timed_s=None)
    assert columns["device_used_bytes"] == 10 * GIB
    assert columns["foreign_processes"] == 0
    assert [columns[name] for name in ("joules_per_gpu", "sm_clock_median_mhz", "throttle_source")] == [None] * 3
