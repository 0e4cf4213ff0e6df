"""The check for a GPU, on a CPU: the parts that a CPU can run, and the rest up to the call that needs a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch

from bench.errors import BenchError
from bench.launch.trial_file import TrialFile
from bench.sweep.expand import MachineFacts
from bench.telemetry.nvml import NvmlGpu, NvmlMig, NvmlReport
from benchmarks.gpu_check import checks, inside, telemetry_checks
from benchmarks.gpu_check.lab import Lab, Results
from benchmarks.gpu_check.outcome import Finding
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
NEEDS_A_GPU = {
    "gpu of rows is the drivers",
    "no synchronisation in an update",
    "memory pass has the timed peak",
    "telemetry is told",
    "stranger on the gpu is seen",
    "utilisation is possible",
    "watching costs nothing",
    "launches agree",
}


def run_check(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script as a user does."""
    command = [sys.executable, "-m", "benchmarks.gpu_check", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_every_check_that_a_cpu_can_run_passes(tmp_path: Path) -> None:
    """The rest skips with its reason; figures and the reference results are kept."""
    done = run_check("--device", "cpu", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout
    lines = json.loads((tmp_path / "gpu_check.json").read_text())["checks"]
    assert {line["check"] for line in lines if line["status"] == "SKIP"} == NEEDS_A_GPU
    assert {line["status"] for line in lines} == {"PASS", "SKIP"}
    assert all(line["figure"] for line in lines)
    assert len(pd.read_parquet(tmp_path / "reference" / "results.parquet")) == 8


def test_without_a_gpu_the_check_is_exit_5(tmp_path: Path) -> None:
    """It never runs on the CPU by itself."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    done = run_check("--out", str(tmp_path / "out"))
    assert done.returncode == 5
    assert not (tmp_path / "out").exists()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Give a lab of this machine's CPU."""
    monkeypatch.setenv("BENCH_FAULTS", "")
    return Lab(tmp_path, MachineFacts("cpu", 0))


@pytest.mark.parametrize(("amp_mode", "expected_mode"), [("fp32", "error"), ("fp16", "warn")])
def test_look_from_inside_runs_up_to_what_needs_a_gpu(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, amp_mode: str, expected_mode: str
) -> None:
    """The debug mode is on for the updates alone; a CPU has no counters to compare."""
    modes: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    threads = torch.get_num_threads()
    sweep = lab.sweep("inside", {"accumulation_steps": 2, "amp_mode": amp_mode}, {"micro_batch_size": [2]})
    trial = lab.trials(sweep)[0]
    file = TrialFile(sweep.name, trial.trial_id, 0, 0, 0, trial.config, sweep.spec.measure, 1, ())
    file.write(lab.folder / "trial.json")
    try:
        facts = inside.look(lab.folder)
    finally:
        torch.set_num_threads(threads)
        torch.set_warn_always(False)
    assert (facts["syncs"], facts["syncs_per_update"], facts["error"]) == ([0, 0, 0], 0, None)
    assert modes == [expected_mode, "default"] * 3 + ["default"]


def rows_of(**columns: Any) -> Results:
    """Make the tables of a sweep of one mode with three launches."""
    lasting = {"parameter_bytes": 4, "gradient_bytes": 4, "optimizer_state_bytes": 8}
    row = {"outcome": "ok", "amp_mode": "bf16", "peak_allocated_bytes": 23, "host_reads_per_update": 0.0} | lasting
    row |= {"buffer_bytes": 0, "gradient_at_peak_bytes": 4, "activation_bytes": 3, "ddp_bucket_bytes": 0}
    row |= {"temporary_bytes": 1, "unwitnessed_bytes": 0, "peak_phase": "backward", "peak_requested_bytes": 20}
    row |= {"trial_id": "a", "timed_s": 2.0, "final_train_loss": 5.0, "vocab_size": 257}
    rows = pd.DataFrame([row | {"round": number} for number in range(3)]).assign(**columns)
    of_phases = [{"phase": "first", "train_loss": 5.6}, *[{"phase": "timed", "train_loss": 5.0, "seconds": 1.0}] * 2]
    updates = pd.DataFrame(
        [
            {"trial_id": "a", "round": number, "update": update, "result": "applied", **facts}
            for number in range(3)
            for update, facts in enumerate(of_phases)
        ]
    )
    return Results(rows, updates)


@pytest.mark.parametrize(
    ("check", "columns"),
    [
        (checks.bytes_equal_over_launches, {"peak_allocated_bytes": [23, 23, 24]}),
        (checks.memory_is_in_order, {"peak_allocated_bytes": [20, 20, 15]}),
        (checks.parts_of_the_peak_add_up, {"temporary_bytes": [1, 1, 2]}),
        (checks.parts_of_the_peak_add_up, {"temporary_bytes": [1, 1, None]}),
        (checks.parts_of_the_peak_add_up, {"activation_bytes": [3, 3, -1], "temporary_bytes": [1, 1, 5]}),
        (checks.bytes_equal_over_launches, {"peak_allocated_bytes": 0}),
        (checks.clocks_agree, {"timed_s": [2.0, 2.0, 2.01]}),
        (checks.clocks_agree, {"timed_s": [2.0, 2.0, None]}),
        (checks.host_reads, {"host_reads_per_update": [0.0, 0.0, 1.0]}),
    ],
)
def test_check_fails_on_one_launch_that_is_off(lab: Lab, check: Any, columns: dict[str, Any]) -> None:
    """A check that cannot fail shows nothing."""
    lab.finished["amp-modes"] = rows_of()
    assert check(lab).status == "PASS"
    lab.finished["amp-modes"] = rows_of(**columns)
    assert check(lab).status == "FAIL"


ALL_LOOK_AT = [
    checks.amp_modes_run_as_asked,
    checks.modes_agree_on_the_loss,
    checks.bytes_equal_over_launches,
    checks.memory_is_in_order,
    checks.parts_of_the_peak_add_up,
    checks.clocks_agree,
    checks.host_reads,
]


@pytest.mark.parametrize("check", ALL_LOOK_AT)
def test_no_check_passes_on_no_launch(lab: Lab, check: Any) -> None:
    nothing = rows_of()
    lab.finished["amp-modes"] = Results(nothing.rows.iloc[:0], nothing.updates.iloc[:0])
    with pytest.raises(BenchError, match="no launch"):
        check(lab)


def test_losses_that_are_all_zero_agree_on_nothing(lab: Lab) -> None:
    """As on a device that computes nothing: a loss of 0 is less than any model has that guesses."""
    results = rows_of()
    lab.finished["amp-modes"] = Results(results.rows, results.updates.assign(train_loss=0.0))
    assert checks.modes_agree_on_the_loss(lab).status == "FAIL"
    lab.finished["amp-modes"] = results
    assert checks.modes_agree_on_the_loss(lab).status == "PASS"


HEALTHY = {
    "outcome": "ok",
    "reason": None,
    "flags": [],
    "telemetry_problem": None,
    "timed_s": 7.0,
    "joules_per_gpu": 2100.0,
    "joules_per_valid_token": 0.001,
    "power_mean_w": 305.0,
    "power_limit_w": 400.0,
    "sm_clock_min_mhz": 1200.0,
    "sm_clock_median_mhz": 1300.0,
    "sm_clock_max_mhz": 1410,
    "temperature_max_c": 61,
    "temperature_end_c": 61,
    "telemetry_gap_s": 0.1,
    "telemetry_samples": 70,
    "foreign_processes": 0,
    "outside_torch_bytes": 2**29,
    "outside_torch_method": "process",
    "device_used_bytes": 2**33,
    "peak_reserved_bytes": 2**32,
    "sw_power_cap_share": 0.5,
    "throttle_source": "counters",
}


def test_healthy_telemetry_passes_with_its_figures() -> None:
    """What a person wants to read is in the line."""
    finding = telemetry_checks.judge_telemetry(pd.Series(HEALTHY))
    assert finding.status == "PASS"
    assert "300 W counted, 305 W read" in finding.figure


def test_bound_stands_in_where_the_driver_lists_no_process() -> None:
    """As in a container."""
    unlisted = {"outside_torch_bytes": None, "outside_torch_method": None, "foreign_processes": None}
    finding = telemetry_checks.judge_telemetry(pd.Series(HEALTHY | unlisted | {"outside_torch_at_most_bytes": 2**29}))
    assert finding.status == "PASS"
    assert "by the rank's bound" in finding.figure


@pytest.mark.parametrize(("mig", "status"), [("MIG-ab", "PASS"), ("MIG-ac", "FAIL")])
def test_slice_of_a_gpu_is_known_by_either_name(monkeypatch: pytest.MonkeyPatch, mig: str, status: str) -> None:
    """Torch writes GPU- before the UUID of a MIG device, NVML writes MIG-."""
    slices = (NvmlMig(mig, None, None, None),)
    monkeypatch.setattr(checks, "read_nvml", lambda: NvmlReport(gpus=(NvmlGpu(0, uuid="GPU-x", mig_devices=slices),)))
    rows = pd.DataFrame({"outcome": ["ok"], "gpu_uuid_per_rank": [["GPU-ab"]]})
    lab: Any = SimpleNamespace(device="cuda", finished={"amp-modes": Results(rows, rows)})
    assert checks.gpu_of_rows_is_the_drivers(lab).status == status


@pytest.mark.parametrize(
    "planted",
    [
        {"joules_per_gpu": 1500.0},
        {"joules_per_gpu": None},
        {"power_mean_w": 430.0, "joules_per_gpu": 3000.0},
        {"sm_clock_max_mhz": 1250},
        {"temperature_max_c": 0},
        {"telemetry_gap_s": 1.0},
        {"foreign_processes": 1},
        {"outside_torch_bytes": None},
        {"outside_torch_bytes": 2**40},
        {"outside_torch_bytes": None, "foreign_processes": None, "outside_torch_at_most_bytes": 2**40},
        {"device_used_bytes": 2**31},
        {"flags": ["nvml_missing"], "telemetry_problem": "gone"},
        {"outcome": "failed", "reason": "broken"},
    ],
)
def test_telemetry_that_contradicts_itself_fails(planted: dict[str, Any]) -> None:
    """A check that cannot fail shows nothing."""
    assert telemetry_checks.judge_telemetry(pd.Series(HEALTHY | planted)).status == "FAIL"


def test_peaks_and_synchronisations_are_judged_by_what_was_seen_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call too many, or one byte apart, is a failure."""
    monkeypatch.setenv("BENCH_FAULTS", "")
    lab = Lab(tmp_path, MachineFacts("cuda", 1))
    seen = {"memory_peak_bytes": 100, "timed_peak_bytes": 100, "error": None}

    def look(_lab: Lab, mode: str) -> dict[str, Any]:
        calls = int(mode == "fp16")
        return seen | {"syncs": [calls] * 3, "syncs_per_update": calls}

    monkeypatch.setattr(checks, "inside", look)
    assert checks.no_synchronisation_in_an_update(lab).status == "PASS"
    assert checks.memory_pass_has_the_timed_peak(lab).status == "PASS"
    monkeypatch.setitem(seen, "timed_peak_bytes", 0)
    monkeypatch.setitem(seen, "memory_peak_bytes", 0)
    assert checks.memory_pass_has_the_timed_peak(lab).status == "FAIL", "counters that count nothing are equal too"
    monkeypatch.undo()
    monkeypatch.setattr(checks, "inside", look)
    seen |= {"memory_peak_bytes": 101, "timed_peak_bytes": 100}
    assert checks.memory_pass_has_the_timed_peak(lab) == Finding(
        "FAIL", ", ".join(f"{mode} 100 B against +1 B" for mode in ("fp32", "tf32", "bf16", "fp16"))
    )
    monkeypatch.setattr(
        checks, "inside", lambda _lab, mode: seen | {"syncs": [], "syncs_per_update": None, "error": "window.py:50"}
    )
    assert checks.no_synchronisation_in_an_update(lab).status == "FAIL"


@pytest.mark.parametrize(
    ("mfu", "bf16_flops_per_s", "status"),
    [(0.4, 790e12, "PASS"), (0.4, 1050e12, "FAIL"), (1.1, 790e12, "FAIL"), (None, 790e12, "SKIP")],
)
def test_utilisation_is_judged_by_the_data_sheet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mfu: float | None, bf16_flops_per_s: float, status: str
) -> None:
    """Nothing is faster than the silicon, and a GPU whose peak is not known is left out."""
    monkeypatch.setenv("BENCH_FAULTS", "")
    lab = Lab(tmp_path, MachineFacts("cuda", 1))
    lab.finished["amp-modes"] = rows_of(mfu=[0.3, 0.35, mfu] if mfu else [None] * 3, gpu_name="A GPU")
    matmul = {"fp32": {"per_s": 51e12}, "bf16": {"per_s": bf16_flops_per_s}, "fp16": None}
    monkeypatch.setattr(checks, "calibrate", lambda _: [{"key": {"name": "NVIDIA H200"}, "matmul": matmul}])
    assert checks.utilisation_is_possible(lab).status == status
    nothing = dict.fromkeys(matmul)
    monkeypatch.setattr(checks, "calibrate", lambda _: [{"key": {"name": "NVIDIA H200"}, "matmul": nothing}])
    assert checks.utilisation_is_possible(lab).status != "PASS", "nothing was measured"
