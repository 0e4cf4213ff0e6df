"""One rank of one launch: `trial.json` in, `rank-N.json` out.

Called by the fork server in a fresh process, or as `python -m bench.rank.worker FOLDER RANK`.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from bench.launch.heartbeat import Heartbeat
from bench.launch.trial_file import TrialFile
from bench.loop import Observer
from bench.measure.host import usable_cores
from bench.rank.arithmetic import arithmetic_columns, why_arithmetic_is_wrong
from bench.rank.columns import facts_before, measured_columns, train_losses, update_rows, why_invalid
from bench.rank.faults import Faults
from bench.rank.memory_columns import why_memory_is_wrong
from bench.rank.out_of_memory import classify_error
from bench.rank.protocol import run_protocol
from bench.rank.ranks import Ranks
from bench.rank.timed_columns import timing_of
from bench.rank.workbench import build_workbench, open_device
from bench.record.paths import LaunchPaths

FORMAT = 1
_TRACEBACK_BYTES = 4096


def run_rank(paths: LaunchPaths, rank: int) -> str:
    """Run one rank of a launch and write what it found; never raises what a trial can raise. Return the outcome."""
    heartbeat = Heartbeat(paths.heartbeat(rank))
    document: dict[str, Any] = {
        "format": FORMAT,
        "rank": rank,
        "outcome": "ok",
        "reason": None,
        "phase": None,
        "micro_batch": None,
        "error_class": None,
        "error_text": None,
        "traceback": None,
        "columns": {},
        "updates": [],
    }
    device = "cpu"
    try:
        trial = TrialFile.read(paths.trial_file)
        device = trial.config.device
        _measure(trial, paths, rank, heartbeat, document)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # user code may raise SystemExit, and that is a failed trial too
        document |= _describe(error, device, heartbeat)
        document["columns"] |= _peaks_so_far(device)
        # Before the block ends: with the error go its frames, and after an error of the GPU that stays, freeing their
        # page-locked memory ends the process.
        _finish(paths, rank, document)
    else:
        _finish(paths, rank, document)
    return str(document["outcome"])


def _finish(paths: LaunchPaths, rank: int, document: dict[str, Any]) -> None:
    document["time"] = time.monotonic()
    write_document(paths.rank_file(rank), document)


def _measure(trial: TrialFile, paths: LaunchPaths, rank: int, heartbeat: Heartbeat, document: dict[str, Any]) -> None:
    """Run the protocol and fill the document, facts first, so that a failure keeps what was known."""
    faults = Faults(trial.trial_id, rank, trial.config.micro_batch_size)
    _set_threads(trial)
    heartbeat.beat("build")
    faults.reach("build")
    device = open_device(trial, rank)
    heartbeat.beat("join")
    ranks = Ranks.join(rank, trial.world_size, device.kind, paths.rendezvous, trial.measure.timeout_s)
    heartbeat.beat("build")
    watchers: list[Observer] = [heartbeat, faults] if faults.are_planned else [heartbeat]
    bench = build_workbench(trial, ranks, device, watchers, heartbeat.beat)
    document["columns"] |= facts_before(bench) | arithmetic_columns(bench)
    reason = why_arithmetic_is_wrong(bench, document["columns"])
    if reason is not None:  # nothing that follows would be worth its time
        document |= {"outcome": "invalid", "reason": reason, "phase": "build"}
        return
    heartbeat.beat("data")
    faults.reach("data")
    observed = run_protocol(bench)
    heartbeat.beat("finish")
    losses = train_losses(bench, observed)
    document["columns"] |= measured_columns(bench, observed, losses)
    document["timing"] = timing_of(observed)
    faults.fill_capacity(document["columns"])
    document["updates"] = update_rows(observed, losses)
    reason = why_invalid(bench, observed, losses) or why_memory_is_wrong(document["columns"])
    if reason is not None:
        document |= {"outcome": "invalid", "reason": reason, "phase": "finish"}
    faults.reach("finish")
    ranks.barrier()


def _set_threads(trial: TrialFile) -> None:
    """Give every rank the same stated number of threads, whatever the launcher's defaults are."""
    torch.set_num_threads(trial.config.cpu_threads_per_rank or max(1, usable_cores() // trial.world_size))


def _describe(error: BaseException, device: str, heartbeat: Heartbeat) -> dict[str, Any]:
    """Say what went wrong, in which phase and micro-batch."""
    classes = [cls.__name__ for cls in type(error).__mro__]
    text = str(error)
    outcome = classify_error(classes, text, device)
    first_line = text.strip().splitlines()[0] if text.strip() else "no message"
    return {
        "outcome": outcome,
        "reason": f"{classes[0]}: {first_line[:300]}",
        "phase": heartbeat.phase,
        "micro_batch": heartbeat.micro_batch if heartbeat.micro_batch >= 0 else None,
        "error_class": f"{type(error).__module__}.{type(error).__qualname__}",
        "error_text": text[:_TRACEBACK_BYTES],
        "traceback": "".join(traceback.format_exception(error))[-_TRACEBACK_BYTES:],
    }


def _peaks_so_far(device: str) -> dict[str, Any]:
    """Read the peaks that a failing rank reached; nulls on a CPU, whose peaks are known only after a memory pass."""
    if device != "cuda" or not torch.cuda.is_available():
        return {}
    stats = torch.cuda.memory_stats()
    return {
        "peak_allocated_bytes": stats.get("allocated_bytes.all.peak"),
        "peak_active_bytes": stats.get("active_bytes.all.peak"),
        "peak_reserved_bytes": stats.get("reserved_bytes.all.peak"),
        "alloc_retries": stats.get("num_alloc_retries"),
        "alloc_ooms": stats.get("num_ooms"),
    }


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Write aside, then rename: a reader sees the whole file or none.

    No wait for the disk: what a power cut leaves of a launch is never read, and the launch is run again.
    """
    aside = path.with_suffix(".part")
    with aside.open("w") as file:
        json.dump(document, file)
    aside.rename(path)


def main() -> None:
    """Run one rank as a program: FOLDER of the launch, RANK."""
    folder, rank = sys.argv[1:]
    outcome = run_rank(LaunchPaths(Path(folder)), int(rank))
    sys.stdout.flush()
    sys.stderr.flush()
    # A process that has torch._dynamo takes 0.7 s to exit the usual way, and its result is safe.
    os._exit(0 if outcome == "ok" else 1)


if __name__ == "__main__":
    main()
