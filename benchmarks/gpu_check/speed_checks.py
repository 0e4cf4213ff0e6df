"""Checks of speed: what watching costs on a device, and how far launches of one configuration differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bench.statistics.intervals import pair_interval
from bench.telemetry.watch import GpuWatch
from benchmarks.gpu_check.lab import Lab
from benchmarks.gpu_check.outcome import Finding, judge

_WORK = ("gpt2-124m", 1024, 4, 4)
"""Model, tokens of a row, micro-batch size, accumulation steps: the device is busy."""
_TURNS = (12, 1, 8)
"""Blocks, turns of each, updates of a turn."""
_WATCHING_COSTS_AT_MOST = 0.005
_PATIENCE_S = 180.0
_LAUNCHES = 5
_SPREAD_AT_MOST = 0.01


def watching_costs_nothing(lab: Lab) -> Finding:
    """The loop as it is measured, its GPU watched meanwhile, against a bare one on the same work, in turns: 0.5 %."""
    if lab.device == "cpu":
        return Finding("SKIP", "on a CPU: python -m benchmarks.overhead")
    numbers = (*_WORK, 4, *_TURNS)
    command = [sys.executable, "-m", "benchmarks.alternating", *map(str, numbers), lab.device, "told"]
    import pynvml

    watch = GpuWatch(pynvml)
    watch.choose([uuid for uuid in lab.facts.gpu_uuids[:1] if uuid is not None])
    try:
        answer, error = take_turns(command, watch)
        samples, problem = sum(len(track.samples) for track in watch.tracks()), watch.problem
    finally:
        watch.close()
    if answer is None:
        return Finding("FAIL", error)
    if problem is not None or samples == 0:
        return Finding("SKIP", f"not shown: the GPU could not be watched: {problem or 'no sample'}")
    found = judge_watching(json.loads(answer)["clock"])
    return Finding(found.status, f"{found.figure}, {samples} samples of the GPU in our turns")


def take_turns(command: Sequence[str], watch: GpuWatch) -> tuple[str | None, str]:
    """Run both loops in turns, and watch the GPUs from this process in our turns, as the driver of a sweep does.

    Args:
        command: Announces each turn, and begins it when it is answered; see `benchmarks.alternating`.
        watch: Asks the driver's library; the GPUs are chosen.

    Returns:
        The last line, None where it failed; then why.
    """
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command,
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        patience = threading.Timer(_PATIENCE_S, process.kill)
        patience.start()
        answer = None
        try:
            for line in process.stdout:
                watch.stop()
                answer = line.strip()
                if answer == "ours":
                    watch.start()
                if answer in ("ours", "bare"):
                    with suppress(BrokenPipeError):  # it died: its exit code tells
                        os.write(process.stdin.fileno(), b"\n")
            code = process.wait()
        finally:
            watch.stop()
            patience.cancel()
            process.kill()
        errors.seek(0)
        said = errors.read().strip().splitlines()
    return (answer, "") if code == 0 else (None, said[-1] if said else f"no answer, exit {code}")


def judge_watching(log_ratios: list[float]) -> Finding:
    """Hold ln(seconds of the bare loop / ours) of blocks against the most that watching may cost.

    It passes by the lower end of the interval; where only the estimate is within it, nothing is shown.
    """
    found = pair_interval(log_ratios)
    figure = (
        f"tokens/s instrumented / bare {found.ratio:.4f} [{found.ratio_low:.4f}, {found.ratio_high:.4f}], "
        f"{found.blocks} blocks"
    )
    least = 1 - _WATCHING_COSTS_AT_MOST
    if found.ratio_low < least <= found.ratio:
        return Finding("SKIP", f"not shown: the interval is too wide; {figure}")
    return judge(found.ratio_low >= least, figure)


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
