"""Checks of speed: what watching costs on a device, and how far launches of one configuration differ."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.measure.intervals import pair_interval
from benchmarks.gpu_check.lab import Lab
from benchmarks.gpu_check.outcome import Finding, judge

_WORK = ("gpt2-124m", 1024, 4, 4)
"""Model, tokens of a row, micro-batch size, accumulation steps: the device is busy."""
_TURNS = (12, 1, 8)
"""Blocks, turns of each, updates of a turn."""
_WATCHING_COSTS_AT_MOST = 0.005
_LAUNCHES = 5
_SPREAD_AT_MOST = 0.01


def watching_costs_nothing(lab: Lab) -> Finding:
    """The loop as it is measured, against a bare one on the same work, in turns in one process: within 0.5 %."""
    if lab.device == "cpu":
        return Finding("SKIP", "on a CPU: python -m benchmarks.overhead")
    numbers = (*_WORK, 4, *_TURNS)
    command = [sys.executable, "-m", "benchmarks.alternating", *map(str, numbers), lab.device]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=180, check=False
    )
    if done.returncode != 0:
        return Finding("FAIL", done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no answer")
    return judge_watching(json.loads(done.stdout.splitlines()[-1])["clock"])


def judge_watching(log_ratios: list[float]) -> Finding:
    """Hold ln(seconds of the bare loop / ours) of blocks against the most that watching may cost."""
    found = pair_interval(log_ratios)
    figure = (
        f"tokens/s instrumented / bare {found.ratio:.4f} [{found.ratio_low:.4f}, {found.ratio_high:.4f}], "
        f"{found.blocks} blocks"
    )
    return judge(found.ratio >= 1 - _WATCHING_COSTS_AT_MOST, figure)


def launches_agree(lab: Lab) -> Finding:
    """Five launches of one configuration differ by at most 1 % (standard deviation / mean), and not in their peak."""
    if lab.device == "cpu":
        return Finding("SKIP", "on a CPU: python -m benchmarks.launch_spread")
    base = {"micro_batch_size": 8, "accumulation_steps": 2}
    measure = {"warmup_updates": 5, "updates": 15, "quality_updates": 0, "rounds": _LAUNCHES}
    launches = lab.run(lab.sweep("spread", base, {"amp_mode": ["bf16"]}, measure)).launches
    rates, peaks = launches["valid_tokens_per_s"], launches["peak_allocated_bytes"]
    if rates.isna().any() or len(rates) != _LAUNCHES:
        return Finding("FAIL", f"{rates.notna().sum()} of {_LAUNCHES} launches ended well")
    spread = float(rates.std() / rates.mean())
    figure = f"sd {spread:.2%} of {rates.mean():,.0f} tokens/s over {_LAUNCHES} launches, {peaks.nunique()} peak(s)"
    return judge(spread <= _SPREAD_AT_MOST and peaks.nunique() == 1, figure)
