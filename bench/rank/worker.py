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
from bench.loop import NoGradient, Observer
from bench.measure.host import usable_cores
from bench.rank.arithmetic import arithmetic_columns, why_arithmetic_is_wrong
from bench.rank.columns import facts_before, measured_columns, no_gradient, train_losses, update_rows, why_invalid
from bench.rank.faults import Faults
from bench.rank.memory_columns import why_memory_is_wrong
from bench.rank.out_of_memory import classify_error, hides_its_cause
from bench.rank.protocol import Observations, run_protocol
from bench.rank.ranks import Ranks
from bench.rank.timed_columns import timing_of
from bench.rank.witnessed import witness_updates
from bench.rank.witnessed_columns import NOT_WITNESSED, witnessed_columns, witnessed_rows
from bench.rank.workbench import Workbench, build_workbench, open_device
from bench.record.paths import LaunchPaths
from bench.sweep.models import own_functions
from bench.units import cut_text, format_bytes
from bench.workload.own_files import own_code_hash
from bench.workload.user_code import look_in_current_folder
from bench.workload.user_errors import place_of

FORMAT = 1
_TRACEBACK_BYTES = 4096


def run_rank(paths: LaunchPaths, rank: int) -> str:
    """Run one rank of a launch and write what it found; never raises what a trial can raise. Return the outcome.

    The document is written when all that decides is measured, and again with what the witnessed updates told. Where
    these fail the first stands, and the answer is `not_witnessed`: the other ranks wait for this one in vain.
    """
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
        "is_witnessed": True,
    }
    device = "cpu"
    try:
        trial = TrialFile.read(paths.trial_file)
        paths = LaunchPaths(paths.folder.absolute())
        device = trial.config.device
        faults = Faults(trial.trial_id, rank, trial.config.micro_batch_size)
        measured = _measure(trial, paths, rank, heartbeat, faults, document)
        if measured is not None:
            _finish(paths, rank, document | {"is_witnessed": False})
            if not _witness(*measured, document):
                return NOT_WITNESSED
            heartbeat.beat("finish")
            faults.fill_capacity(document["columns"])
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # user code may raise SystemExit, and that is a failed trial too
        document |= _describe(error, device, heartbeat)
        document["columns"] |= _peaks_so_far(device)
        if isinstance(error, NoGradient):
            flags = {*document["columns"].get("flags", ()), *no_gradient(error.names)}
            document["columns"] |= {"parameters_without_gradient": list(error.names), "flags": sorted(flags)}
        # Before the block ends: with the error go its frames, and after an error of the GPU that stays, freeing their
        # page-locked memory ends the process.
        _finish(paths, rank, document)
    else:
        _finish(paths, rank, document)
    return str(document["outcome"])


def _finish(paths: LaunchPaths, rank: int, document: dict[str, Any]) -> None:
    document["time"] = time.monotonic()
    write_document(paths.rank_file(rank), document)


def _measure(
    trial: TrialFile, paths: LaunchPaths, rank: int, heartbeat: Heartbeat, faults: Faults, document: dict[str, Any]
) -> tuple[Workbench, Observations] | None:
    """Run the protocol and fill the document, facts first, so that a failure keeps what was known.

    None where the device computes wrong, before any update.
    """
    _set_threads(trial)
    if trial.working_directory:
        os.chdir(trial.working_directory)  # a fork server may have been started elsewhere
        look_in_current_folder()
        document["columns"]["user_code_hash"] = own_code_hash(own_functions(trial.config).values())
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
        return None
    heartbeat.beat("data")
    faults.reach("data")
    observed = run_protocol(bench)
    heartbeat.beat("finish")
    losses = train_losses(bench, observed)
    document["timing"] = timing_of(observed)
    columns = measured_columns(bench, observed, losses)
    document["columns"] |= columns | {"flags": sorted({*columns["flags"], NOT_WITNESSED})}
    document["updates"] = update_rows(observed, losses, bench.data.unit)
    _judge(document, why_invalid(bench, observed, losses) or why_memory_is_wrong(document["columns"]))
    faults.reach("finish")
    ranks.barrier()
    return bench, observed


def _witness(bench: Workbench, observed: Observations, document: dict[str, Any]) -> bool:
    """Witness the last updates and add what they told; False, and nothing added, where they failed on any rank."""
    try:
        witnessed = witness_updates(bench, observed.pace.is_shortened)
        told = witnessed_columns(bench, witnessed, document["columns"])
        bench.ranks.barrier()
    except KeyboardInterrupt:
        raise
    except BaseException:
        traceback.print_exc()
        return False
    document["columns"] |= told
    document["updates"] += witnessed_rows(witnessed, bench.data.unit)
    if document["outcome"] == "ok":  # a CPU's peak is known only now
        _judge(document, why_memory_is_wrong(document["columns"]))
    return True


def _judge(document: dict[str, Any], reason: str | None) -> None:
    if reason is not None:
        document |= {"outcome": "invalid", "reason": reason, "phase": "finish"}


def _set_threads(trial: TrialFile) -> None:
    """Give every rank the same stated number of threads, whatever the launcher's defaults are."""
    torch.set_num_threads(trial.config.cpu_threads_per_rank or max(1, usable_cores() // trial.world_size))


def _describe(error: BaseException, device: str, heartbeat: Heartbeat) -> dict[str, Any]:
    """Say what went wrong, in which phase and micro-batch."""
    classes = [cls.__name__ for cls in type(error).__mro__]
    text = str(error)
    free_bytes = _free_bytes() if device == "cuda" and hides_its_cause(text) else None
    outcome = classify_error(classes, text, device, free_bytes)
    free = "" if free_bytes is None else f" ({format_bytes(free_bytes)} of the GPU were free)"
    where = place_of(error)
    first_line = text.strip().splitlines()[0] if text.strip() else "no message"
    return {
        "outcome": outcome,
        "reason": f"{classes[0]}: {cut_text(first_line, 300)}{free}{f' ({where})' if where else ''}",
        "phase": heartbeat.phase,
        "micro_batch": heartbeat.micro_batch if heartbeat.micro_batch >= 0 else None,
        "error_class": f"{type(error).__module__}.{type(error).__qualname__}",
        "error_text": text[:_TRACEBACK_BYTES],
        "traceback": "".join(traceback.format_exception(error))[-_TRACEBACK_BYTES:],
    }


def _free_bytes() -> int | None:
    """Ask how much of the GPU is free while what failed still holds its tensors; None after an error that stays."""
    try:
        return torch.cuda.mem_get_info()[0]
    except RuntimeError:
        return None


def _peaks_so_far(device: str) -> dict[str, Any]:
    """Read the peaks that a failing rank reached; none on a CPU, whose peaks only a witness knows."""
    if device != "cuda" or not torch.cuda.is_available():
        return {}
    stats = torch.cuda.memory_stats()
    return {
        "peak_requested_bytes": stats.get("requested_bytes.all.peak"),
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
