"""Look into one trial from inside its process: synchronising calls in an update, and the peaks of both passes.

Called as `python -m benchmarks.gpu_check.inside FOLDER`, which holds trial.json; writes answer.json there.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import torch

from bench.launch.trial_file import TrialFile
from bench.rank.memory_columns import requested_bytes
from bench.rank.protocol import run_protocol
from bench.rank.ranks import Ranks
from bench.rank.workbench import Workbench, build_workbench, open_device

_UPDATES = 3
_SYNC_TEXT = "called a synchronizing CUDA operation"


def look(folder: Path) -> dict[str, Any]:
    """Run the launch's own protocol, then a few more updates under torch's debug mode."""
    trial = TrialFile.read(folder / "trial.json")
    device = open_device(trial, 0)
    ranks = Ranks.join(0, 1, device.kind, folder / "rendezvous", 60.0)
    bench = build_workbench(trial, ranks, device, [])
    observed = run_protocol(bench)
    syncs, error = _count_synchronisations(bench)
    return {
        "memory_peak_bytes": requested_bytes(observed, "memory"),
        "timed_peak_bytes": requested_bytes(observed, "timed"),
        "syncs": syncs,
        "syncs_per_update": syncs[0] if len(set(syncs)) == 1 else None,
        "error": error,
    }


def _count_synchronisations(bench: Workbench) -> tuple[list[int], str | None]:
    """Count the synchronising calls of each update; the profiler watches as it does in the timed part.

    Without a scaler the mode is `error`, which names the line. Not seen by it: waits inside NCCL or a sort, and the
    wait for an earlier update's event, which is on purpose.
    """
    mode = "warn" if bench.loop.precision.scaler is not None else "error"
    torch.set_warn_always(True)
    bench.profiler.begin("timed", _UPDATES)
    counts, error = [], None
    try:
        for _ in range(_UPDATES):
            window = bench.feed.next_window()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                torch.cuda.set_sync_debug_mode(mode)
                bench.loop.run_window(window)
                torch.cuda.set_sync_debug_mode("default")
            counts.append(sum(_SYNC_TEXT in str(warning.message) for warning in caught))
    except RuntimeError as raised:
        if _SYNC_TEXT not in str(raised):
            raise
        frames = traceback.extract_tb(raised.__traceback__)
        error = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-4:]))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    if error is None:
        bench.profiler.end()
    return counts, error


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "answer.json").write_text(json.dumps(look(folder)))
