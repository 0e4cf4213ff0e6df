"""Full disks, lost folders, other conditions: nothing valid is lost, and the sweep goes on when it can."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.drive.driver import SweepInterrupted
from bench.drive.folder import set_folder_aside
from bench.drive.lock import FolderLock, hold
from bench.errors import BenchError, LockedError, StorageError
from bench.launch.launcher import LaunchEnd
from bench.launch.watchdog import LaunchLimits
from bench.record.fault_points import POINTS, install
from bench.record.journal import encode_line, read_journal
from tests.integration import trivial
from tests.patience import PATIENCE_S, wait_until
from tests.requirements import require


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    mounted = os.getuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0
    require("mount", None if mounted else "only root can mount, where the container allows it")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def refuse(point: str, number: int, visit: int = 1) -> Callable[[str], None]:
    """Plan that the system refuses at one visit of one point."""
    visits = 0

    def hook(reached: str) -> None:
        nonlocal visits
        visits += reached == point
        if reached == point and visits == visit:
            raise OSError(number, os.strerror(number))

    return hook


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("point", [point for point in POINTS if not point.startswith("launch.")])
def test_refused_write_ends_the_sweep_with_the_path_and_the_next_run_goes_on(
    tmp_path: Path, finished: Path, point: str, number: int
) -> None:
    """F21 and F22: at each write, fsync and rename; what was finished before stays finished."""
    folder = tmp_path / "results"
    for visit in (1, 6):
        install(refuse(point, number, visit))
        try:
            with pytest.raises(StorageError, match=os.strerror(number)) as refused:
                trivial.run(trivial.SIX_TRIALS, folder)
        finally:
            install(None)
        assert refused.value.exit_code == 4
        assert str(folder) in str(refused.value)
    trivial.run(trivial.SIX_TRIALS, folder)
    trivial.same_results(folder, finished)
    assert not list(folder.rglob("*.tmp"))


def test_full_disk_ends_the_sweep_and_more_room_lets_it_go_on(small_disk: Path, tmp_path: Path) -> None:
    """A real one. Earlier launches stay readable on the full disk."""
    sweep = trivial.sweep_of({"seed": list(range(12)), "micro_batch_size": [1, 2, 4]})
    folder = small_disk / "results"
    with pytest.raises(StorageError, match="No space left on device"):
        trivial.run(sweep, folder)
    kept = sum(record["kind"] == "launch" for record in read_journal(folder / "journal.jsonl"))
    assert 0 < kept < 36
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert trivial.run(sweep, folder).launched == 36 - kept
    trivial.run(sweep, tmp_path / "undisturbed")
    trivial.same_results(folder, tmp_path / "undisturbed")


def test_rank_that_could_not_write_says_nothing_about_its_trial(tmp_path: Path) -> None:
    """The disk was full when it printed: the launch is not recorded as failed, and runs again."""

    def full(folder: Path, rank: int) -> dict[str, object]:
        text = "[Errno 28] No space left on device"
        return trivial.answer_of(folder, rank) | {"outcome": "failed", "error_text": text, "columns": {}}

    with pytest.raises(StorageError, match="rank 0 could not write"):
        trivial.run(trivial.SIX_TRIALS, tmp_path / "results", launcher=trivial.InstantLauncher(full))
    assert trivial.run(trivial.SIX_TRIALS, tmp_path / "results").launched == 6


def test_folder_that_vanishes_ends_the_sweep_and_is_not_made_anew(tmp_path: Path) -> None:
    """F23: results written to a deleted file would be lost without a word."""
    folder = tmp_path / "results"
    watcher = trivial.Quiet()
    watcher.on_begin = lambda: shutil.rmtree(folder) if len(watcher.rows) == 2 else None

    def answer(launch: Path, rank: int) -> dict[str, object] | None:
        return trivial.answer_of(launch, rank) if launch.exists() else None

    with pytest.raises(StorageError, match="is gone"):
        trivial.run(trivial.SIX_TRIALS, folder, progress=watcher, launcher=trivial.InstantLauncher(answer))
    assert not folder.exists()


def test_folder_that_cannot_be_written_is_refused_before_the_first_launch(tmp_path: Path) -> None:
    """F23: mode bits do not hold root back, a read-only mount does."""
    folder = tmp_path / "results"
    folder.mkdir()
    bound = os.getuid() == 0 and all(
        subprocess.run(["mount", *command, str(folder)], capture_output=True).returncode == 0
        for command in (["--bind", str(folder)], ["-o", "remount,bind,ro"])
    )
    require("mount", None if bound else "only root can mount, where the container allows it")
    launcher = trivial.InstantLauncher()
    try:
        with pytest.raises(StorageError, match="Read-only file system"):
            trivial.run(trivial.SIX_TRIALS, folder, launcher=launcher)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
    assert launcher.launched == []


def test_of_twenty_sweeps_at_once_exactly_one_runs(tmp_path: Path, finished: Path) -> None:
    """F24: the others are refused and the one is not disturbed."""
    folder = tmp_path / "results"
    begun, go = tmp_path / "begun", tmp_path / "go"
    begun.mkdir()

    def hold(point: str) -> None:
        if point == "launch.spawn":
            (begun / str(os.getpid())).touch()
            wait_until(go.exists, "the others were refused")

    children = [trivial.run_in_a_process(trivial.SIX_TRIALS, folder, plan=hold) for _ in range(20)]
    codes: dict[int, int] = {}

    def are_all_refused_or_running() -> bool:
        for child in children:
            if child not in codes and (code := trivial.code_of(child)) is not None:
                codes[child] = code
        return len({*map(str, codes), *(path.name for path in begun.iterdir())}) == 20

    wait_until(are_all_refused_or_running, "twenty sweeps began or were refused")
    go.touch()
    for child in set(children) - codes.keys():
        codes[child] = trivial.wait_for(child)
    assert sorted(codes.values()) == [0] + [1] * 19
    kinds = Counter(record["kind"] for record in read_journal(folder / "journal.jsonl"))
    assert kinds == {"header": 1, "machine": 1, "planned": 1, "running": 6, "launch": 6}, "another one wrote"
    trivial.same_results(folder, finished)


def test_fresh_sets_the_old_folder_aside_and_keeps_all_of_it(folder: Path, finished: Path) -> None:
    """F30: under the time as a suffix; twice in a second under different names."""
    aside = set_folder_aside(folder)
    assert aside is not None
    assert aside.name.startswith("results.")
    assert not folder.exists()
    trivial.same_results(aside, finished)
    assert trivial.run(trivial.SIX_TRIALS, folder).launched == 6
    again = set_folder_aside(folder)
    assert again not in (None, aside)
    assert set_folder_aside(folder) is None


def test_fresh_does_not_take_a_folder_from_a_running_sweep(folder: Path) -> None:
    """It is refused as a second sweep is."""
    with hold(folder / ".lock"), pytest.raises(LockedError):
        set_folder_aside(folder)
    assert folder.exists()


def test_changed_measure_is_refused_with_the_differing_key_and_changed_limits_are_not(folder: Path) -> None:
    """F30: a limit changes no number."""
    axes = {"seed": [0, 1], "micro_batch_size": [1, 2, 4]}
    with pytest.raises(BenchError, match=r"measure\.updates was 1 and is now 2"):
        trivial.run(trivial.sweep_of(axes, updates=2), folder)
    limits = {"timeout_s": 9.0, "start_timeout_s": 8.0, "stall_timeout_s": 7.0}
    assert trivial.run(trivial.sweep_of(axes, **limits), folder).launched == 0


def test_variable_that_changes_results_must_be_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F30: rows with and without it would be pooled; one that older folders did not write counts as equal."""
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    with pytest.raises(BenchError, match="environment variable ATEN_CPU_CAPABILITY was not set and is now default"):
        trivial.run(trivial.SIX_TRIALS, folder)
    monkeypatch.delenv("ATEN_CPU_CAPABILITY")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # says nothing about a CPU
    assert trivial.run(trivial.SIX_TRIALS, folder).launched == 0
    path = folder / "journal.jsonl"
    header, *others = read_journal(path)
    del header["environment"]
    path.write_bytes(b"".join(encode_line(record) for record in (header, *others)))
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    assert trivial.run(trivial.SIX_TRIALS, folder).launched == 0


def test_limits_of_the_sweep_are_those_of_each_launch(tmp_path: Path) -> None:
    """Each in its own place; without a time limit of the whole sweep there is none."""
    sweep = trivial.sweep_of({"seed": [0, 1]}, timeout_s=9.0, start_timeout_s=8.0, stall_timeout_s=7.0)
    launcher = trivial.InstantLauncher()
    trivial.run(sweep, tmp_path / "results", launcher=launcher)
    assert launcher.limits == [LaunchLimits(start_s=8.0, total_s=9.0, stall_s=7.0, sweep_s=None)] * 2


def test_folder_of_a_newer_schema_is_refused_and_of_an_older_one_is_read(folder: Path, finished: Path) -> None:
    """F31: what an older version did not write is taken as agreed."""
    path = folder / "journal.jsonl"
    header, *others = read_journal(path)

    def rewrite(changed: dict[str, object]) -> None:
        path.write_bytes(b"".join(encode_line(record) for record in (changed, *others)))

    rewrite({**header, "schema_version": header["schema_version"] + 1})
    with pytest.raises(StorageError, match="newer"):
        trivial.run(trivial.SIX_TRIALS, folder)
    older = {key: value for key, value in header.items() if key != "device"} | {"schema_version": 0}
    rewrite(older)
    assert trivial.run(trivial.SIX_TRIALS, folder).launched == 0
    trivial.same_results(folder, finished)


def test_trial_that_fails_every_time_is_not_run_for_ever(tmp_path: Path) -> None:
    """F38: once in a run, three times in all."""

    def fails(folder: Path, rank: int) -> dict[str, object]:
        return trivial.answer_of(folder, rank) | {"outcome": "failed", "reason": "always", "columns": {}}

    launched = []
    for _ in range(5):
        launcher = trivial.InstantLauncher(fails)
        trivial.run(trivial.SIX_TRIALS, tmp_path / "results", launcher=launcher, retry_failed=True)
        launched.append(len(launcher.launched))
    assert launched == [6, 6, 6, 0, 0]


@pytest.mark.parametrize(
    "name",
    ["with space", "quote'\"", "line\nbreak", "päth-日本", b"\xff\xfe".decode("utf8", "surrogateescape"), "x" * 200],
)
def test_odd_folder_names_work(tmp_path: Path, name: str, finished: Path) -> None:
    """F37: spaces, quotes, newlines, other scripts, bytes that are no text, and long."""
    folder = tmp_path / name / "results"
    trivial.run(trivial.SIX_TRIALS, folder)
    assert trivial.run(trivial.SIX_TRIALS, folder).launched == 0
    trivial.same_results(folder, finished)


def test_oom_is_learnt_once_across_resumes_and_pruned_trials_have_one_row(tmp_path: Path) -> None:
    """The larger micro-batches of the same trial are not tried; their reason names the row that taught it."""

    def small(folder: Path, rank: int) -> dict[str, object]:
        answer = trivial.answer_of(folder, rank)
        size = json.loads((folder / "trial.json").read_text())["config"]["micro_batch_size"]
        return answer | {"outcome": "ok" if size < 4 else "oom", "reason": "no memory"}

    base = {"global_batch_size": 64}
    first = trivial.sweep_of({"micro_batch_size": [2, 4]}, base, rounds=2)
    trivial.run(first, tmp_path / "results", launcher=trivial.InstantLauncher(small))
    more = trivial.sweep_of({"micro_batch_size": [2, 4, 8, 16, 32, 64]}, base, rounds=2)
    launcher = trivial.InstantLauncher(small)
    summary = trivial.run(more, tmp_path / "results", launcher=launcher)
    assert summary.pruned == 3
    assert summary.launched == 2, "at one accumulation step it may fit: it is tried in both rounds"
    table = pd.read_parquet(tmp_path / "results" / "results.parquet")
    pruned = table[table["outcome"] == "pruned"]
    assert pruned["micro_batch_size"].tolist() == [8, 16, 32]
    assert pruned["round"].isna().all()
    taught_by = table[(table["micro_batch_size"] == 4)]["trial_id"].iloc[0]
    assert all(f"trial {taught_by}" in reason for reason in pruned["reason"])


def test_time_limit_starts_no_launch_that_cannot_end(tmp_path: Path) -> None:
    """What is left runs next time."""
    with pytest.raises(SweepInterrupted) as interrupted:
        trivial.run(trivial.SIX_TRIALS, tmp_path / "results", time_limit_s=1e-9)
    assert interrupted.value.number is None
    assert interrupted.value.left == 6
    assert trivial.run(trivial.SIX_TRIALS, tmp_path / "results", time_limit_s=PATIENCE_S).launched == 6


def test_folder_is_kept_while_a_launch_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes: where only the lease holds, another machine sees no more than its age."""
    renewed: list[FolderLock] = []
    monkeypatch.setattr(FolderLock, "renew", lambda self: renewed.append(self))

    class Waiting(trivial.InstantLauncher):
        def run(self, work: str, paths: Any, ranks: Any, limits: Any, on_wait: Any = None, *more: Any) -> LaunchEnd:
            before = len(renewed)
            on_wait()
            assert len(renewed) > before
            return super().run(work, paths, ranks, limits, on_wait, *more)

    assert trivial.run(trivial.SIX_TRIALS, tmp_path / "results", launcher=Waiting()).launched == 6
