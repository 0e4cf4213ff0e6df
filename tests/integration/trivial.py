"""Sweeps of trials that take milliseconds, for tests of what the driver does: real driver, real files, no torch.

Either in this process, with a launcher that writes the ranks' answers itself, or in processes of its own, where the
driver can be killed at any moment.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from bench.drive.driver import SweepInterrupted, SweepSummary, run_sweep
from bench.drive.history import History
from bench.launch import rank_process
from bench.launch.interrupts import Interrupts
from bench.launch.launcher import LaunchEnd, Launcher
from bench.launch.outcome import RankEnd
from bench.launch.watchdog import Stopped
from bench.record.fault_points import install, reach
from bench.record.journal import read_journal
from bench.record.paths import LaunchPaths
from bench.sweep.check import check_document
from bench.sweep.expand import MachineFacts
from bench.sweep.trial import Sweep
from tests.patience import PATIENCE_S, wait_until

CPU = MachineFacts("cpu", 0)
OUTCOMES = ("ok", "ok", "ok", "failed", "invalid")
PATIENT = dict.fromkeys(("timeout_s", "start_timeout_s", "stall_timeout_s"), PATIENCE_S)
"""Limits of a launch that end none in a test."""


def sweep_of(axes: Mapping[str, Any], base: Mapping[str, Any] | None = None, **measure: Any) -> Sweep:
    """Make a sweep from its axes; its corpus is tiny and made up."""
    document = {
        "format": 1,
        "name": "trivial",
        "base": {
            "device": "cpu",
            "model": {"preset": "gpt2-nano"},
            "data": {"synthetic": {"documents": 2, "mean_tokens": 4}, "rows": "ragged"},
            "global_batch_size": 4,
            **(base or {}),
        },
        "axes": dict(axes),
        "measure": {"warmup_updates": 1, "updates": 1, "rounds": 1, **PATIENT, **measure},
    }
    spec, faults = check_document(document)
    assert spec is not None, faults
    return Sweep(spec.name, None, "", spec, tuple(spec.axes), json.dumps(document))


SIX_TRIALS = sweep_of({"seed": [0, 1], "micro_batch_size": [1, 2, 4]})
"""For tests of what happens to a folder; the fixture `finished` holds one in which it has run."""


def answer_of(folder: Path, rank: int) -> dict[str, Any]:
    """Make up what a rank says of its trial: always the same for the same trial."""
    trial = json.loads((folder / "trial.json").read_text())
    number = int(hashlib.sha256(trial["trial_id"].encode()).hexdigest()[:8], 16)
    outcome = OUTCOMES[number % len(OUTCOMES)]
    text = None if outcome == "ok" else f"made up {number}"
    return {
        "format": 1,
        "rank": rank,
        "outcome": outcome,
        "reason": text,
        "phase": None if outcome == "ok" else "forward",
        "micro_batch": None,
        "error_class": None,
        "error_text": text,
        "traceback": None,
        "time": time.monotonic(),
        "columns": {
            "valid_tokens": number % 1000,
            "timed_s": 0.5,
            "final_train_loss": number / 2**32,
            "peak_allocated_bytes": number,
            "flags": [],
        },
        "updates": [{"update": 0, "phase": "timed", "seconds": 0.5, "train_loss": number / 2**32}],
    }


def run_rank(folder: str, rank: int, parent: int, work: str) -> None:
    """Be one rank of a trivial trial, in a process of its own."""
    rank_process.begin(folder, rank, parent)
    document = answer_of(Path(folder), rank)
    path = LaunchPaths(Path(folder)).rank_file(rank)
    path.with_suffix(".part").write_text(json.dumps(document))
    path.with_suffix(".part").rename(path)
    rank_process.end(0 if document["outcome"] == "ok" else 1)


class InstantLauncher(Launcher):
    """Answer in place of the ranks, at once and in this process."""

    def __init__(self, answer: Callable[[Path, int], dict[str, Any] | None] = answer_of) -> None:
        super().__init__(preload=())
        self.launched: list[str] = []
        self.limits: list[Any] = []
        self._answer = answer

    def warm_up(self, environment: Mapping[str, str] | None = None) -> None:
        pass

    def run(
        self,
        work: str,
        paths: LaunchPaths,
        ranks: Sequence[int],
        limits: Any,
        on_wait: Callable[[], None] = lambda: None,
        interrupts: Interrupts | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> LaunchEnd:
        for point in ("launch.spawn", "launch.spawned", "launch.ended"):
            reach(point)
        on_wait()
        self.launched.append(paths.folder.name)
        self.limits.append(limits)
        if interrupts is not None and interrupts.number is not None:
            ends = tuple(RankEnd(rank, None, None, None, None, True) for rank in ranks)
            return LaunchEnd(ends, Stopped("interrupted", "the sweep was interrupted"), 0.01)
        documents = [self._answer(paths.folder, rank) for rank in ranks]
        ends = tuple(
            RankEnd(rank, 0 if document is not None and document["outcome"] == "ok" else 1, document, None)
            for rank, document in zip(ranks, documents, strict=True)
        )
        return LaunchEnd(ends, None, 0.01)


@dataclass
class Quiet:
    """Watch a sweep and remember what was said."""

    notes: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    expected: list[tuple[int, bool]] = field(default_factory=list)
    on_begin: Callable[[], None] = lambda: None

    def note(self, text: str) -> None:
        self.notes.append(text)

    def sweep_begin(self, launches: int, done: int, skipped: int) -> None:
        self.counts = (launches, done, skipped)

    def expect(self, launches: int, is_estimate: bool) -> None:
        self.expected.append((launches, is_estimate))

    def launch_begin(self, launch: Any) -> None:
        self.on_begin()

    def launch_end(self, launch: Any, row: Mapping[str, Any]) -> None:
        self.rows.append(row)

    def place_left_out(self, label: str, reason: str) -> None:
        self.left_out.append((label, reason))


def run(sweep: Sweep, folder: Path, **options: Any) -> SweepSummary:
    """Run a sweep in this process; see `InstantLauncher`."""
    options.setdefault("launcher", InstantLauncher())
    return run_sweep(sweep, folder, CPU, options.pop("progress", Quiet()), **options)


def facts_of(folder: Path, *more: str) -> pd.DataFrame:
    """Read what of a sweep's results must not depend on how often it was cut short."""
    # By its bytes: pyarrow cannot open every path that this system can.
    table = pd.read_parquet(io.BytesIO((folder / "results.parquet").read_bytes()))
    names = ["trial_id", "round", "order", "outcome", "reason", "config_json", "valid_tokens", "final_train_loss"]
    return table[[*names, "micro_batch_size", "peak_allocated_bytes", "error_text", *more]]


def same_results(folder: Path, undisturbed: Path) -> None:
    """Check that two folders of one sweep say the same."""
    pd.testing.assert_frame_equal(facts_of(folder), facts_of(undisturbed))


def check_against(undisturbed: Path, folder: Path) -> None:
    """Compare two folders of the same sweep, and look for a launch that was lost or made twice."""
    same_results(folder, undisturbed)
    records = read_journal(folder / "journal.jsonl")
    assert History(records).abandoned() == [], "a launch is still said to be running"
    launches = [record for record in records if record["kind"] == "launch"]
    finished = Counter(
        (record["trial_id"], record["round"]) for record in launches if record["outcome"] != "interrupted"
    )
    assert set(finished.values()) == {1}, "a finished launch was made again"
    parts = Counter(record["part"] for record in launches)
    assert set(parts.values()) == {1}, "two launches share a part"


def finished_of(folder: Path) -> set[tuple[str, int, str]]:
    """List what the journal promises to be finished, with the hash of its part."""
    path = folder / "journal.jsonl"
    records = read_journal(path) if path.exists() else ()
    return {
        (record["trial_id"], record["round"], record["sha256"])
        for record in records
        if record["kind"] == "launch" and record["outcome"] != "interrupted"
    }


def run_in_a_process(
    sweep: Sweep,
    folder: Path,
    plan: Callable[[str], None] | None = None,
    launcher: Callable[[], Launcher] | None = None,
) -> int:
    """Start a driver in a process of its own by fork; return its process id. It ends with 0 when the sweep is done."""
    with warnings.catch_warnings():
        # From 3.12 on Python warns of every fork of a process with threads, as numpy's are; the child needs none.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        install(plan)
        run_sweep(sweep, folder, CPU, Quiet(), launcher=(launcher or InstantLauncher)())
        code = 0
    except SweepInterrupted:
        code = 130
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def code_of(pid: int) -> int | None:
    """Give the exit code of a driver, negative for a signal; None while it runs. To be asked until it is told."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def wait_for(pid: int) -> int:
    """Wait for a driver and give its exit code, negative for a signal."""
    try:
        return wait_until(lambda: code_of(pid), "the driver ends", pause_s=0.002)
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def kill_at(point: str, visit: int) -> Callable[[str], None]:
    """Plan the death of this process at one visit of one point, counted from 1."""
    visits = 0

    def hook(reached: str) -> None:
        nonlocal visits
        visits += reached == point
        if reached == point and visits == visit:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook
