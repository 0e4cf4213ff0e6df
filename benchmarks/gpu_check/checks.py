"""The checks, each a function of the lab that gives a finding with the figure behind it."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from bench.errors import BenchError
from bench.launch.launcher import StartMethod
from bench.launch.trial_file import TrialFile
from bench.machine.calibration import calibrate
from bench.measure.peaks import peak_flops_per_s
from bench.record.bytes_only import STANDIN
from bench.record.columns.memory import PARTS_OF_THE_PEAK
from bench.telemetry.nvml import read_nvml
from bench.telemetry.samples import is_same_gpu
from bench.units import format_bytes, format_flops, format_rate, format_seconds
from benchmarks.gpu_check import speed_checks, telemetry_checks
from benchmarks.gpu_check.lab import Lab, Results
from benchmarks.gpu_check.loss_checks import judge_losses
from benchmarks.gpu_check.outcome import Finding, judge

REPOSITORY = Path(__file__).parents[2]

_SWITCHES = {  # autocast_dtype, tf32_matmul, float32_matmul_precision, grad_scaler
    "fp32": (None, False, "highest", False),
    "tf32": (None, True, "high", False),
    "bf16": ("bfloat16", True, "high", False),
    "fp16": ("float16", True, "high", True),
}
_HOST_READS = {"fp32": 0, "tf32": 0, "bf16": 0, "fp16": 1}
_ROUNDS = 3
_LAUNCH_PAIRS = 3
_OVER_THE_SHEET = 1.05  # how far clocks above the sheet's may carry a matrix product


def modes(lab: Lab) -> Results:
    """Give the sweep that most checks look at: every AMP mode, three launches each.

    Raises:
        BenchError: There are none: of nothing, everything is true.
    """
    if "amp-modes" not in lab.finished:
        base = {"micro_batch_size": 4, "accumulation_steps": 2}
        lab.run(lab.sweep("amp-modes", base, {"amp_mode": list(_SWITCHES)}, {"rounds": _ROUNDS}))
    found = lab.finished["amp-modes"]
    if found.launches.empty:
        raise BenchError("there is no launch to look at")
    return found


def amp_modes_run_as_asked(lab: Lab) -> Finding:
    """Every AMP mode runs, and torch's switches read back are those of the mode."""
    launches = modes(lab).launches
    wrong = []
    for row in launches.itertuples():
        told = (row.autocast_dtype, row.tf32_matmul, row.float32_matmul_precision, row.grad_scaler)
        found, asked = tuple(map(_or_none, told)), _SWITCHES[row.amp_mode]
        if lab.device == "cpu":
            asked = (asked[0], None, "highest", asked[3])
        if row.outcome != "ok":
            wrong.append(f"{row.amp_mode} {row.outcome}: {row.reason}")
        elif found != asked:
            wrong.append(f"{row.amp_mode} has autocast, TF32, fp32 products, scaler = {found}")
    ran = sorted(set(launches["amp_mode"]))
    expected = set(_SWITCHES) - ({"tf32"} if lab.device == "cpu" else set())
    is_whole = set(ran) == expected and len(launches) == _ROUNDS * len(expected)
    return judge(not wrong and is_whole, "; ".join(wrong) or f"{', '.join(ran)}, {len(launches)} launches")


def modes_agree_on_the_loss(lab: Lab) -> Finding:
    """The same data and weights give the same loss in every AMP mode, and at first that of guessing."""
    results = modes(lab)
    return judge_losses(
        {
            (row.amp_mode, row.round): results.updates_of(row)
            for row in results.launches.sort_values("round").itertuples()
        },
        int(results.launches["vocab_size"].iloc[0]),
    )


def bytes_equal_over_launches(lab: Lab) -> Finding:
    """Three launches of one configuration have the same peak, to the byte."""
    peaks = modes(lab).launches.groupby("amp_mode")["peak_allocated_bytes"].agg(["min", "max", "count"])
    bad = peaks[(peaks["min"] != peaks["max"]) | (peaks["count"] != _ROUNDS) | (peaks["min"] <= 0)]
    shown = bad if len(bad) else peaks
    listed = ", ".join(
        f"{mode} {format_bytes(row['min'])}" + (f" to {int(row['max'] - row['min'])} B more" if len(bad) else "")
        for mode, row in shown.iterrows()
    )
    return judge(bad.empty, listed)


def parts_of_the_peak_add_up(lab: Lab) -> Finding:
    """Every peak was divided, in parts that are none below 0 and add up to it to the byte."""
    rows = modes(lab).launches
    parts = rows[list(PARTS_OF_THE_PEAK)]
    whole = rows["peak_requested_bytes"].fillna(rows["peak_allocated_bytes"])  # a CPU counts no requests
    bad = rows[parts.isna().any(axis=1) | (parts < 0).any(axis=1) | (parts.sum(axis=1) != whole)]
    unseen = rows["unwitnessed_bytes"] / whole
    phases = ", ".join(sorted({str(phase) for phase in rows["peak_phase"]}))
    wrong = "; ".join(
        f"{row.amp_mode}: {[getattr(row, part) for part in PARTS_OF_THE_PEAK]}" for row in bad.itertuples()
    )
    return judge(bad.empty, wrong or f"peaks in {phases}; at most {unseen.max():.1%} of one in no operator's tensor")


def memory_is_in_order(lab: Lab) -> Finding:
    """What lives in a launch is below its peak, and requested <= allocated <= ... <= used by NVML <= capacity."""
    wrong, order = [], {}
    for row in modes(lab).launches.itertuples():
        order = {"lasting": row.parameter_bytes + row.gradient_bytes + row.optimizer_state_bytes}
        order |= {"requested": row.peak_requested_bytes} if lab.device == "cuda" else {}
        order |= {"allocated": row.peak_allocated_bytes}
        if lab.device == "cuda":
            order |= {"active": row.peak_active_bytes, "reserved": row.peak_reserved_bytes}
            told = not pd.isna(row.device_used_bytes)  # null where NVML does not tell
            order |= {"used": row.device_used_bytes} if told else {}
            order |= {"capacity": row.device_capacity_bytes}
        values = list(order.values())
        if any(map(pd.isna, values)) or values != sorted(values):
            wrong.append(f"{row.amp_mode}: {', '.join(f'{name} {value:,}' for name, value in order.items())} B")
    return judge(not wrong, "; ".join(dict.fromkeys(wrong)) or " <= ".join(order))


def clocks_agree(lab: Lab) -> Finding:
    """Events of the timed part add up to the host's clock, to 0.2 % and 1 ms."""
    results, worst = modes(lab), -math.inf
    for row in results.launches.itertuples():
        event_s = float(results.updates_of(row, "timed")["seconds"].sum())
        beyond_s = abs(event_s - row.timed_s) - (0.002 * row.timed_s + 0.001)
        worst = max(worst, beyond_s if event_s > 0 and row.timed_s > 0 else math.inf)  # also where a time is null
    return judge(worst <= 0, f"worst launch is {abs(worst) * 1e3:.2f} ms {'within' if worst <= 0 else 'beyond'} it")


def host_reads(lab: Lab) -> Finding:
    """No value is read by the host in an update; with the fp16 scaler exactly one."""
    reads = modes(lab).launches.groupby("amp_mode")["host_reads_per_update"].agg(["min", "max"])
    good = all(row["min"] == row["max"] == _HOST_READS[mode] for mode, row in reads.iterrows())
    return judge(good, ", ".join(f"{mode} {row['max']:g}" for mode, row in reads.iterrows()) + " an update")


def no_synchronisation_in_an_update(lab: Lab) -> Finding:
    """Inside an update torch's debug mode sees no synchronising call; with the fp16 scaler exactly one."""
    if lab.device == "cpu":
        return Finding("SKIP", "a CPU has nothing to synchronise")
    found = {mode: inside(lab, mode) for mode in _SWITCHES}
    wrong = [mode for mode, facts in found.items() if facts["syncs_per_update"] != _HOST_READS[mode]]
    listed = ", ".join(
        f"{mode} {facts['error'] or ', '.join(map(str, facts['syncs']))}" for mode, facts in found.items()
    )
    return judge(not wrong, f"{listed} (calls in each update)")


def memory_pass_has_the_timed_peak(lab: Lab) -> Finding:
    """The timed part requests what the memory pass did, to the byte: nothing that decides is measured otherwise."""
    if lab.device == "cpu":
        return Finding("SKIP", "a CPU has no counters beside the memory pass")
    wrong, listed = [], []
    for mode in _SWITCHES:
        facts = inside(lab, mode)
        memory, timed = facts["memory_peak_bytes"], facts["timed_peak_bytes"]
        wrong += [mode] if memory != timed or not timed else []
        listed.append(f"{mode} {format_bytes(timed)}" + (f" against {memory - timed:+} B" if memory != timed else ""))
    return judge(not wrong, ", ".join(listed))


def inside(lab: Lab, mode: str) -> dict[str, Any]:
    """Run one trial in a process that looks at itself; see `inside.py`."""
    folder = lab.folder / "inside" / mode
    answer = folder / "answer.json"
    if not answer.exists():
        base = {"accumulation_steps": 2, "amp_mode": mode}
        sweep = lab.sweep(f"inside-{mode}", base, {"micro_batch_size": [4]})
        trial = lab.trials(sweep)[0]
        folder.mkdir(parents=True, exist_ok=True)
        file = TrialFile(sweep.name, trial.trial_id, 0, 0, 0, trial.config, sweep.spec.measure, 1, (0,))
        file.write(folder / "trial.json")
        command = [sys.executable, "-m", "benchmarks.gpu_check.inside", str(folder)]
        with (folder / "log").open("w") as log:
            subprocess.run(command, cwd=REPOSITORY, stdout=log, stderr=log, timeout=120, check=True)
    facts: dict[str, Any] = json.loads(answer.read_text())
    return facts


def out_of_memory_is_a_row_and_the_next_trial_runs(lab: Lab) -> Finding:
    """A trial that cannot fit ends as oom with phase and peak; the one after it is not harmed."""
    if lab.device == "cuda":
        # fp32 logits alone of 0.2 GB a row, for a fifth more rows than the GPU has room for.
        capacity = read_nvml().gpus[0].total_bytes or 200 * 1024**3
        rows = 2 ** math.ceil(math.log2(1.2 * capacity / (1024 * 50257 * 4)))
        base, large, small = {"accumulation_steps": 1}, rows, 2
    else:
        base, large, small = {"accumulation_steps": 1, "model": {"preset": "gpt2-mini"}, "seq_len": 512}, 8, 1
        base["data"] = {"corpus": "stdlib", "rows": "packed"}
    measure = {"warmup_updates": 0, "updates": 1, "quality_updates": 0}
    too_large = lab.sweep("oom", base, {"micro_batch_size": [large]}, measure)
    if lab.device == "cpu":
        lab.plant_out_of_memory(lab.trials(too_large)[0])
    row = lab.run(too_large).rows.iloc[0]
    lab.plant_out_of_memory(None)
    after = lab.run(lab.sweep("after-oom", base, {"micro_batch_size": [small]}, measure)).rows.iloc[0]
    peak_known = lab.device == "cpu" or not pd.isna(row["peak_allocated_bytes"])
    good = row["outcome"] == "oom" and row["phase"] in ("forward", "backward") and peak_known
    peak = format_bytes(None if pd.isna(row["peak_allocated_bytes"]) else row["peak_allocated_bytes"])
    return judge(
        good and after["outcome"] == "ok",
        f"{row['outcome']} in {row['phase']} at micro-batch {large}, peak {peak}; "
        f"then micro-batch {small} {after['outcome']}",
    )


def fork_server_against_spawn(lab: Lab) -> Finding:
    """A launch from the fork server works on this device and is no slower than a spawned one."""
    data = {"synthetic": {"documents": 400, "mean_tokens": 40}, "rows": "packed"}
    base = {"model": {"preset": "gpt2-nano"}, "seq_len": 64, "accumulation_steps": 2, "data": data}
    measure = {"warmup_updates": 0, "updates": 2, "quality_updates": 0}
    sweep = lab.sweep("starts", base, {"micro_batch_size": [1]}, measure)
    lab.run(sweep, "forkserver", "starts/server-boot")
    methods: tuple[StartMethod, ...] = ("forkserver", "spawn")
    cost: dict[str, list[float]] = {method: [] for method in methods}
    outcomes = set()
    for pair in range(_LAUNCH_PAIRS):
        for method in methods:
            results = lab.run(sweep, method, f"starts/{method}-{pair}")
            row = results.rows.iloc[0]
            outcomes.add(row["outcome"])
            cost[method].append(float(row["launch_s"]) - float(results.updates["seconds"].sum()))
    ratio = statistics.median(spawn / fork for fork, spawn in zip(cost["forkserver"], cost["spawn"], strict=True))
    listed = " against ".join(f"{method} {format_seconds(statistics.median(cost[method]))}" for method in methods)
    return judge(outcomes == {"ok"} and ratio > 1, f"{listed} a launch beside its updates, ratio {ratio:.1f}")


def gpu_of_rows_is_the_drivers(lab: Lab) -> Finding:
    """The UUID in each row is one that the driver lists."""
    if lab.device == "cpu":
        return Finding("SKIP", "a CPU has no UUID")
    gpus = read_nvml().gpus
    known = [device.uuid for gpu in gpus for device in (gpu, *gpu.mig_devices)]
    found = {uuid for uuids in modes(lab).launches["gpu_uuid_per_rank"] for uuid in uuids}
    are_known = all(any(is_same_gpu(uuid, other) for other in known) for uuid in found)
    return judge(bool(found) and are_known, ", ".join(sorted(map(str, found))))


def utilisation_is_possible(lab: Lab) -> Finding:
    """No matrix product is faster than the GPU's data sheet allows, and every launch used a share between 0 and 1."""
    if lab.device == "cpu":
        return Finding("SKIP", "the peak of a CPU is not known")
    mfu = modes(lab).launches["mfu"]
    if mfu.isna().all():
        return Finding("SKIP", f"the peak of {modes(lab).launches['gpu_name'].iloc[0]} is not known")
    wrong, listed, shares = [], [], []
    for document in calibrate("cuda")[:1]:
        for precision, ceiling in document["matmul"].items():
            peak = peak_flops_per_s(document["key"]["name"], precision)
            share = math.nan if ceiling is None or peak is None else ceiling["per_s"] / peak
            wrong += [precision] if share > _OVER_THE_SHEET else []
            shares += [] if math.isnan(share) else [share]
            listed.append(f"{precision} {format_flops(None if ceiling is None else ceiling['per_s'])} = {share:.2f}")
    good = not wrong and bool(shares) and bool(mfu.between(0, 1, inclusive="neither").all())
    return judge(good, f"mfu {mfu.min():.3f} to {mfu.max():.3f}; matmul {', '.join(listed)} of the sheet's")


def telemetry_is_told(lab: Lab) -> Finding:
    """Energy agrees with power, clocks and memory are in order, and the driver tells them in the timed part."""
    return telemetry_checks.telemetry_is_told(lab, modes(lab))


def reference_sweep(lab: Lab) -> Finding:
    """A small reference sweep runs whole and is kept as a results folder."""
    micro_batch_sizes = [4, 16, 32] if lab.device == "cuda" else [1, 4]
    base = {"global_batch_size": max(micro_batch_sizes)}
    axes = {"amp_mode": list(_SWITCHES), "micro_batch_size": micro_batch_sizes}
    launches = lab.run(lab.sweep("reference", base, axes, {"updates": 4})).launches
    bad = launches[~launches["outcome"].isin(["ok", "oom"])]
    if len(bad) or not (launches["outcome"] == "ok").any():
        return Finding("FAIL", "; ".join(f"{row.amp_mode} {row.outcome}: {row.reason}" for row in bad.itertuples()))
    if (launches["memory_method"] == STANDIN).any():
        return Finding("PASS", f"{len(launches)} launches, without speed")
    best = launches.loc[launches["valid_tokens_per_s"].idxmax()]
    return Finding(
        "PASS",
        f"{len(launches)} launches; fastest {best['amp_mode']}, micro-batch {best['micro_batch_size']}: "
        f"{format_rate(best['valid_tokens_per_s'])}, {format_bytes(best['peak_allocated_bytes'])}",
    )


def _or_none(value: Any) -> Any:
    return None if pd.isna(value) else value


CHECKS: tuple[Callable[[Lab], Finding], ...] = (
    amp_modes_run_as_asked,
    modes_agree_on_the_loss,
    bytes_equal_over_launches,
    memory_is_in_order,
    parts_of_the_peak_add_up,
    clocks_agree,
    host_reads,
    gpu_of_rows_is_the_drivers,
    telemetry_is_told,
    telemetry_checks.stranger_on_the_gpu_is_seen,
    out_of_memory_is_a_row_and_the_next_trial_runs,
    no_synchronisation_in_an_update,
    memory_pass_has_the_timed_peak,
    fork_server_against_spawn,
    speed_checks.launches_agree,
    speed_checks.watching_costs_nothing,
    utilisation_is_possible,
    reference_sweep,
)
"""In the order in which they run; the cheapest news first, the longest sweep last."""

NEED_SPEED = frozenset(
    {
        *(modes_agree_on_the_loss, clocks_agree, telemetry_is_told, utilisation_is_possible),
        *(speed_checks.launches_agree, speed_checks.watching_costs_nothing),
    }
)
"""Those that a stand-in GPU cannot answer: they look at durations, sensors or losses."""
