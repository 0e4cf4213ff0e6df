"""Our loop and the bare one in one process, in turns of a few updates: what others do to the machine hits both alike.

The trial is built as a rank builds it, with its signs of life and its profiler, and cut of windows, marks and all is
inside the time. Each turn ends with a wait for the device. What a process as a whole may cost is not in it; `overhead`
measures that in whole launches. Prints ln(seconds of the bare loop / ours) of every block of turns, as JSON: on the
clock and on the processor.

With `told`, each turn is announced in a line, ours or bare, and begins when a line is answered: so whoever started this
can do in our turns what the driver of a sweep does while a launch runs.

Run: python -m benchmarks.alternating MODEL SEQ_LEN MICRO_BATCH_SIZE ACCUMULATION_STEPS WARMUP_UPDATES BLOCKS TURNS
     UPDATES [DEVICE] [told]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from bench.launch.heartbeat import Heartbeat
from bench.launch.trial_file import TrialFile
from bench.rank.ranks import Ranks
from bench.rank.workbench import Workbench, build_workbench, open_device
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.flags import sweep_from_flags
from bench.sweep.trial import Trial
from benchmarks.bare_loop import BareLoop


def build(
    model: str, seq_len: int, micro_batch_size: int, accumulation_steps: int, device: str, folder: Path
) -> Workbench:
    """Build the trial as a rank of a launch does."""
    config = {
        "device": device,
        "model.preset": model,
        "data.rows": "packed",
        "seq_len": seq_len,
        "micro_batch_size": micro_batch_size,
        "accumulation_steps": accumulation_steps,
    }
    sweep = sweep_from_flags(config, {"warmup_updates": 0, "updates": 1, "quality_updates": 0}, "alternating")
    (trial,) = expand(sweep, MachineFacts(device, int(device == "cuda")))
    assert isinstance(trial, Trial)
    gpus = (0,) if device == "cuda" else ()
    file = TrialFile("alternating", trial.trial_id, 0, 0, 0, trial.config, sweep.spec.measure, 1, gpus)
    return build_workbench(file, Ranks(0, 1, None), open_device(file, 0), [Heartbeat(folder / "heartbeat")])


def main() -> None:
    """Take turns."""
    torch.set_num_threads(1)
    model, *numbers = [argument for argument in sys.argv[1:] if argument not in ("cpu", "cuda", "told")]
    device = "cuda" if "cuda" in sys.argv else "cpu"
    seq_len, micro_batch_size, accumulation_steps, warmup_updates, blocks, turns, updates = map(int, numbers)
    all_updates = warmup_updates + blocks * turns * updates
    with tempfile.TemporaryDirectory() as folder:
        bench = build(model, seq_len, micro_batch_size, accumulation_steps, device, Path(folder))
        bare = BareLoop(model, seq_len, micro_batch_size, accumulation_steps, all_updates, device)

        def ours(first: int, count: int) -> None:
            for _ in range(first, first + count):
                bench.loop.run_window(bench.feed.next_window())

        def theirs(first: int, count: int) -> None:
            for update in range(first, first + count):
                bare.train(update)

        bench.profiler.begin("timed", all_updates)
        ours(0, warmup_updates)
        theirs(0, warmup_updates)
        bench.device.synchronise()
        seconds = np.zeros((blocks, 2, 2))  # block, ours or theirs, clock or processor
        for turn in range(blocks * turns):
            for side, run in ((0, ours), (1, theirs)) if turn % 2 else ((1, theirs), (0, ours)):
                if "told" in sys.argv:
                    print("bare" if side else "ours", flush=True)
                    sys.stdin.readline()
                clock, processor = time.perf_counter(), time.thread_time()
                run(warmup_updates + turn * updates, updates)
                bench.device.synchronise()
                seconds[turn // turns, side] += (time.perf_counter() - clock, time.thread_time() - processor)
        bench.profiler.end()
    log_ratios = np.log(seconds[:, 1] / seconds[:, 0])
    print(json.dumps({"clock": log_ratios[:, 0].tolist(), "processor": log_ratios[:, 1].tolist()}))


if __name__ == "__main__":
    main()
