"""How long one waits for a command that measures nothing: start of `show` and `plan`, resume of a finished sweep.

Whole commands in fresh processes, from request to exit, as in a shell. Goals: 0.5 s for `bench show` of six launches
and `bench plan` of a shipped sweep; 1 s for `bench sweep` of a sweep whose 1,000 trials are all there.

Run: python -m benchmarks.starts [--repeats 7] [--trials 1000] [--quick]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.sweep.file import load_sweep
from benchmarks.figures import Figure, median_figure
from benchmarks.harness import parser, run, say
from tests.integration import trivial

REPOSITORY = Path(__file__).parents[1]
START_S, RESUME_S = 0.5, 1.0

SWEEP = """\
# Question: how long does it take to find that nothing is left to do?
format: 1
name: finished
base:
  device: cpu
  model: {{preset: gpt2-nano}}
  data: {{synthetic: {{documents: 2, mean_tokens: 4}}, rows: ragged}}
  global_batch_size: 4
axes:
  seed: {seeds}
  optimizer.lr: [1.0e-4, 2.0e-4, 3.0e-4, 4.0e-4, 5.0e-4, 6.0e-4, 7.0e-4, 8.0e-4, 9.0e-4, 1.0e-3]
measure: {{warmup_updates: 1, updates: 1, rounds: 1}}
"""


def finish_sweep(folder: Path, trials: int) -> Path:
    """Write a sweep file and the folder in which all of its launches are done; nothing is trained."""
    file = folder / "finished.yaml"
    file.write_text(SWEEP.format(seeds=list(range(trials // 10))))

    def answer(launch: Path, rank: int) -> dict[str, object]:
        return trivial.answer_of(launch, rank) | {"outcome": "ok", "reason": None, "error_text": None, "phase": None}

    trivial.run(load_sweep(file), folder / "results", launcher=trivial.InstantLauncher(answer))
    return file


def seconds_of(*arguments: str, repeats: int) -> list[float]:
    """Run a command so many times, after once that does not count [s]."""
    command = [sys.executable, "-m", "bench.cli", *arguments]
    # As a user has it: compiled modules are kept from the first run on.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, env=environment, check=False)
        found.append(time.perf_counter() - start)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
    return found[1:]


def figures(options: argparse.Namespace) -> Iterator[Figure]:
    """Start the commands."""
    repeats = options.repeats or (3 if options.quick else 7)
    plan = seconds_of("plan", "sweeps/quickstart.yaml", "--device", "cpu", repeats=repeats)
    yield median_figure("bench plan of a shipped sweep, request to exit", plan, START_S)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trivial.run(trivial.SIX_TRIALS, folder / "six")
        show = seconds_of("show", str(folder / "six"), repeats=repeats)
        yield median_figure("bench show of six launches, request to exit", show, START_S)
        trials = options.trials or (200 if options.quick else 1000)
        start = time.perf_counter()
        file = finish_sweep(folder, trials)
        say(f"  {trials} trials recorded in {time.perf_counter() - start:.1f} s")
        begin = time.perf_counter()
        summary = trivial.run(load_sweep(file), folder / "results")
        assert (summary.launched, summary.already_done) == (0, trials)
        yield Figure(
            "R6",
            f"resume of {trials:,} finished trials, the driver's part",
            time.perf_counter() - begin,
            at_most=RESUME_S,
            unit="s",
        )
        whole = seconds_of("sweep", str(file), "--out", str(folder / "results"), "--no-plot", repeats=repeats)
        yield median_figure("   the same as a command, table and recommendation included", whole)


def main() -> None:
    """Print the seconds."""
    options_of = parser("benchmarks.starts", __doc__)
    options_of.add_argument("--repeats", type=int, help="times each command is run  [default: 7, quick 3]")
    options_of.add_argument("--trials", type=int, help="trials of the finished sweep  [default: 1000, quick 200]")
    options = options_of.parse_args()
    run("starts", figures(options), options)


if __name__ == "__main__":
    main()
