"""Checks of what the driver tells while a launch runs: energy, clocks, memory outside torch, strangers."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pandas as pd

from bench.units import format_bytes
from benchmarks.gpu_check.lab import Lab, Results
from benchmarks.gpu_check.outcome import Finding, judge

_TIMED_S = 7.0
"""Above the 5 s below which energy is null."""
_ENERGY_TOLERANCE = 0.15
"""Between the counter and the mean of power readings, which are averages of the last second."""
_MOST_OUTSIDE_BYTES = 4 * 1024**3
_STRANGER = """
import sys, torch
held = torch.zeros(2**26, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
sys.stdin.read()
"""


def telemetry_is_told(lab: Lab, modes: Results) -> Finding:
    """Energy agrees with power, clocks and memory are in order, and the driver tells them in the timed part."""
    if lab.device == "cpu":
        return Finding("SKIP", "a CPU has no telemetry")
    update_s = modes.launches.query("amp_mode == 'bf16' and outcome == 'ok'")["update_s_median"].median()
    updates = math.ceil(_TIMED_S / update_s)
    base = {"micro_batch_size": 4, "accumulation_steps": 2}
    measure = {"updates": updates, "quality_updates": 0, "rounds": 1}
    row = lab.run(lab.sweep("telemetry", base, {"amp_mode": ["bf16"]}, measure)).launches.iloc[0]
    return judge_telemetry(row)


def judge_telemetry(row: Any) -> Finding:
    """Hold the figures of one launch of more than 5 s against each other."""
    if row["outcome"] != "ok" or "nvml_missing" in row["flags"]:
        return Finding("FAIL", f"{row['outcome']}: {row['reason'] or row['telemetry_problem']}")
    missing = [name for name in ("joules_per_gpu", "power_mean_w", "sm_clock_median_mhz") if pd.isna(row[name])]
    if missing:
        return Finding("FAIL", f"not told: {', '.join(missing)}")
    counted_w = row["joules_per_gpu"] / row["timed_s"]
    clocks = [row["sm_clock_min_mhz"], row["sm_clock_median_mhz"], row["sm_clock_max_mhz"]]
    outside, method = row["outside_torch_bytes"], row["outside_torch_method"]
    if pd.isna(outside) and pd.isna(row["foreign_processes"]):
        outside, method = row["outside_torch_at_most_bytes"], "the rank's bound"
    wrong = {
        "energy and power disagree": abs(counted_w / row["power_mean_w"] - 1) > _ENERGY_TOLERANCE,
        "power beyond its limit": row["power_mean_w"] > 1.05 * row["power_limit_w"],
        f"clocks {clocks}": clocks != sorted(clocks),
        "temperature": not 10 <= row["temperature_max_c"] <= 110,
        "samples too far apart": row["telemetry_gap_s"] > 0.5,
        "strangers": row["foreign_processes"] not in (0, None) and not pd.isna(row["foreign_processes"]),
        "memory outside torch": pd.isna(outside) or not 0 < outside <= _MOST_OUTSIDE_BYTES,
        "device holds less than torch": row["device_used_bytes"] < row["peak_reserved_bytes"],
    }
    figures = (
        f"{counted_w:.0f} W counted, {row['power_mean_w']:.0f} W read, limit {row['power_limit_w']:.0f} W; "
        f"{1e3 * row['joules_per_valid_token']:.3g} mJ a token; {clocks[1]:.0f} MHz; {row['temperature_end_c']} C; "
        f"{format_bytes(None if pd.isna(outside) else outside)} outside torch by {method}; power "
        f"cap {row['sw_power_cap_share']:.0%} ({row['throttle_source']}); {row['telemetry_samples']} samples, "
        f"{row['telemetry_gap_s']:.2f} s apart; flags {sorted(row['flags'])}"
    )
    return judge(not any(wrong.values()), "; ".join([*(name for name, is_so in wrong.items() if is_so), figures]))


def stranger_on_the_gpu_is_seen(lab: Lab) -> Finding:
    """Another process on the GPU flags the launch, which is run once more."""
    if lab.device == "cpu":
        return Finding("SKIP", "a CPU has no telemetry")
    sweep = lab.sweep("stranger", {"accumulation_steps": 1}, {"micro_batch_size": [4]}, {"rounds": 1})
    command = [sys.executable, "-c", _STRANGER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger:
        assert stranger.stdout is not None, "it is a pipe"
        stranger.stdout.readline()
        row = lab.run(sweep).launches.iloc[0]
        stranger.communicate()
    if pd.isna(row["foreign_processes"]):
        return Finding("SKIP", "the driver lists no process here, not even ours")
    figure = f"{row['foreign_processes']} foreign, attempt {row['attempt']}, flags {sorted(row['flags'])}"
    return judge(row["foreign_processes"] >= 1 and row["attempt"] == 1 and "gpu_shared" in row["flags"], figure)
