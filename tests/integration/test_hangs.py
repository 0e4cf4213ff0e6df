"""Ranks that hang, will not end, or are left alone: the right outcome, and nothing is left. Real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.drive.work import rank_launcher
from bench.launch import rank_process
from bench.launch.heartbeat import Beat, read_beat
from bench.launch.kill_ladder import LADDER
from bench.launch.launcher import Launcher
from bench.launch.process_table import is_stopped, with_token
from tests.integration.conftest import Beats, Brief, stands, stands_alone
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow


def two_ranks(document: dict[str, Any]) -> None:
    document["axes"] = {"micro_batch_size": [1, 2]}
    document["base"]["world_size"] = 2


def one_rank(document: dict[str, Any]) -> None:
    document["axes"] = {"micro_batch_size": [1, 2]}


@pytest.mark.ddp
@pytest.mark.parametrize("action", ["stop", "sleep", "chatter"])
def test_rank_without_progress_is_a_hang_of_that_rank_and_its_stack_is_kept(lab: Any, action: str) -> None:
    """Stopped, asleep or printing without end: the stalled rank is named, and the next trial runs."""
    sweep = lab.sweep(two_ranks)
    bad = lab.trials(sweep)[0]
    brief = Brief(bad, stands_alone("forward", micro_steps=4, rank=1), stall_s=2.0)
    lab.run(sweep, f"{bad.trial_id}/forward@1:5:{action}", brief=brief)
    rows = lab.rows()
    assert rows["outcome"].to_dict() == {1: "hang", 2: "ok"}
    assert rows.loc[1, "failing_rank"] == 1
    assert rows.loc[1, "phase"] == "forward"
    assert "made no progress for" in rows.loc[1, "reason"]
    assert ("SIGSTOP" in rows.loc[1, "reason"]) == (action == "stop")
    # Nothing but what the rank's own interpreter says of itself: file, line, function.
    assert "most recent call first" in rows.loc[1, "error_text"]
    assert with_token(lab.launcher.token) == sorted(lab.launcher._servers.pids())


@pytest.mark.ddp
def test_peer_of_a_failed_rank_is_not_waited_for(lab: Any) -> None:
    """It sleeps and would be called hanging after a long time: the launch ends when it has had its grace."""
    sweep = lab.sweep(two_ranks)
    bad = lab.trials(sweep)[0]
    lab.run(sweep, f"{bad.trial_id}/forward@0:5:sleep", f"{bad.trial_id}/forward@1:5:oom")
    rows = lab.rows()
    assert rows["outcome"].to_dict() == {1: "oom", 2: "ok"}
    assert rows.loc[1, "failing_rank"] == 1
    assert rows.loc[1, "launch_s"] < PATIENCE_S, "the driver waited for its own limit"


def test_rank_deaf_to_all_but_sigkill_is_ended_and_the_next_trial_runs(lab: Any) -> None:
    """The ladder ends in SIGKILL, after the time that its rungs take."""
    sweep = lab.sweep(one_rank)
    bad = lab.trials(sweep)[0]
    brief = Brief(bad, stands("forward", micro_steps=5), stall_s=2.0)
    lab.run(sweep, f"{bad.trial_id}/forward:6:deaf", brief=brief)
    rows = lab.rows()
    assert rows["outcome"].to_dict() == {1: "hang", 2: "ok"}
    patience_s = sum(seconds for _, seconds in LADDER[:2])
    assert rows.loc[1, "launch_s"] >= patience_s


def test_what_a_rank_left_in_a_session_of_its_own_is_ended_with_its_launch(lab: Any) -> None:
    """A data loader that outlives its rank carries the token, so it is found, and only what carries it is ended."""
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
    try:
        sweep = lab.sweep(one_rank)
        lab.run(sweep, "forward:1:leave_child")
        assert set(lab.rows()["outcome"]) == {"ok"}
        assert with_token(lab.launcher.token) == sorted(lab.launcher._servers.pids())
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_death_of_the_fork_server_is_a_killed_launch_and_the_next_trial_gets_a_new_server(
    lab: Any, faults_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks go with their server; the sweep goes on with another."""
    launcher = rank_launcher()
    lab.launcher = launcher
    sweep = lab.sweep(one_rank)
    first = lab.trials(sweep)[0]
    killed: list[int] = []

    def kill_server_once() -> None:
        heartbeat = lab.folder / "results" / "logs" / f"{first.trial_id}-r0-a0" / "rank-0.heartbeat"
        if not killed and heartbeat.exists():
            killed.extend(launcher._servers.pids())
            os.kill(killed[0], signal.SIGKILL)

    run = launcher.run
    monkeypatch.setattr(launcher, "run", lambda *args: run(*args[:4], kill_server_once, *args[5:]))
    lab.run(sweep, f"{first.trial_id}/build:1:sleep")
    rows = lab.rows()
    assert killed
    assert rows["outcome"].to_dict() == {1: "killed", 2: "ok"}
    assert "fork server" in rows.loc[1, "reason"]
    assert not set(killed) & launcher._servers.pids()


def test_rank_of_an_unfit_server_is_started_again_by_spawn_and_flagged(lab: Any) -> None:
    """A server that runs threads must not be forked from: the launch goes the slow way, and the row says so."""
    lab.launcher = Launcher(preload=("bench.rank.preload", "tests.unfit_server"))
    sweep = lab.sweep(lambda document: document.update(axes={"micro_batch_size": [2]}))
    lab.run(sweep)
    row = lab.rows().loc[2]
    assert row["outcome"] == "ok"
    assert "started_by_spawn" in row["flags"]


def test_server_is_fit_only_without_threads_and_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the three looks finds its own fault; torch is loaded here."""
    import torch

    def fit(threads: int = 1, files: tuple[str, ...] = ("/dev/nvidiactl",)) -> str | None:
        return rank_process.unfit_reason(1, lambda pid: threads, lambda pid: list(files))

    assert fit() is None
    assert "3 threads" in str(fit(threads=3))
    assert "GPU" in str(fit(files=("/dev/nvidia0",)))
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    assert "GPU" in str(fit())


def _start_driver(
    lab: Any, fault: str, changes: Callable[[dict[str, Any]], None], program: Sequence[str] = ("-m", "bench.cli")
) -> tuple[subprocess.Popen[str], str]:
    """Start `bench sweep` with this fault in a process of its own; give it and the token of its ranks."""
    lab.sweep(changes)
    faults = lab.folder / "own-faults"
    faults.write_text(fault)
    folder = lab.folder / "results"
    command = [sys.executable, *program, "sweep", str(lab.folder / "sweep.yaml"), "--out", str(folder)]
    environment = os.environ | {"BENCH_FAULTS": str(faults)}
    process = subprocess.Popen(
        [*command, "--no-plot"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    return process, wait_until(lambda: _token_of(folder), "a launch begins")


def _token_of(folder: Path) -> str | None:
    """Read the token of the launch under way from the journal."""
    import json

    journal = folder / "journal.jsonl"
    *whole, _ = journal.read_text().split("\n") if journal.exists() else [""]
    for line in whole:
        record = json.loads(line)["record"]
        if record["kind"] == "running":
            return str(record["token"])
    return None


def _beats(folder: Path) -> dict[int, Beat | None]:
    """Read the signs of life of the first launch's ranks."""
    return dict(enumerate(read_beat(path) for path in sorted(folder.glob("logs/*/rank-*.heartbeat"))))


def _wait_for_ranks(lab: Any, are_there: Callable[[Beats], bool]) -> None:
    """Wait until ranks are where their fault holds them, and have been for a while."""

    def have_been_there() -> bool:
        beats = _beats(lab.folder / "results")
        seen_s = [beat.monotonic_s for beat in beats.values() if beat is not None]
        return are_there(beats) and time.monotonic() - max(seen_s) > 0.3

    wait_until(have_been_there, "the ranks get there")


@pytest.mark.ddp
def test_nothing_is_left_after_the_driver_is_killed_with_all_ranks_inside_a_collective(lab: Any) -> None:
    """No Python runs in ranks that wait in C++: only the kernel can end them with their parent.

    That it takes no longer than 2 s is measured by `benchmarks/endings.py`.
    """
    process, token = _start_driver(lab, "update:2:block", two_ranks)
    there = [stands("update", micro_steps=4, rank=rank) for rank in (0, 1)]
    _wait_for_ranks(lab, lambda beats: all(is_there(beats) for is_there in there))
    assert len(with_token(token)) == 3, "a server and two ranks"
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    wait_until(lambda: not with_token(token), "nothing is left")
    (told,) = (lab.folder / "results" / "logs").glob("*-r0-a0/rendezvous")
    place = Path(told.read_text()).parent
    assert place.is_dir(), "no process is left that could remove it"
    assert lab.run(lab.sweep(two_ranks)).launched == 2
    assert not place.exists()
    assert any("cut off" in note for note in lab.progress.notes)
    assert lab.rows()["outcome"].tolist() == ["ok", "ok"]
    assert sorted(lab.rows()["attempt"]) == [0, 1]


def test_stragglers_of_a_killed_driver_are_ended_by_the_next_sweep(lab: Any) -> None:
    """What left its rank's session outlives even the kernel's chain; the journal knows its token."""
    process, token = _start_driver(lab, "forward:1:leave_child\nforward:6:sleep", one_rank)
    wait_until(lambda: len(with_token(token)) == 3, "server, rank and its child")
    _wait_for_ranks(lab, stands("forward", micro_steps=5))
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    wait_until(lambda: len(with_token(token)) == 1, "server and rank are gone, the child in its own session is not")
    lab.run(lab.sweep(one_rank))
    assert with_token(token) == []
    assert any("killed 1 leftover process" in note for note in lab.progress.notes)


def test_second_ctrl_c_ends_at_once_with_a_deaf_rank(lab: Any) -> None:
    """The first waits for the rank to end well, the second does not; both leave a folder that resumes."""
    begun = lab.folder / "ladder-begun"
    program = ("-m", "tests.integration.long_ladder", str(begun))
    process, token = _start_driver(lab, "forward:6:deaf", one_rank, program)
    _wait_for_ranks(lab, stands("forward", micro_steps=5))
    process.send_signal(signal.SIGINT)
    wait_until(begun.exists, "the rank is asked to end")
    assert process.poll() is None, "it waits for the rank"
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=PATIENCE_S)  # the whole ladder takes longer
    assert process.returncode == 130, messages
    wait_until(lambda: not with_token(token), "nothing is left")
    assert lab.run(lab.sweep(one_rank)).launched == 2


def test_ctrl_z_stops_the_ranks_too_and_the_row_says_so(lab: Any) -> None:
    """Everything stops, everything goes on, and the limits leave the pause out."""
    process, token = _start_driver(lab, "", _long)
    wait_until(lambda: any(beat and beat.update >= 1 for beat in _beats(lab.folder / "results").values()), "an update")
    process.send_signal(signal.SIGTSTP)
    wait_until(lambda: is_stopped(process.pid), "the driver stops")
    wait_until(lambda: sum(map(is_stopped, with_token(token))) == 1, "the rank stops, the server waits anyway")
    time.sleep(_STALL_LIMIT_S + 0.5)
    process.send_signal(signal.SIGCONT)
    _, messages = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, messages
    assert lab.rows()["outcome"].tolist() == ["ok", "ok"]
    assert any("suspended" in flags for flags in lab.rows()["flags"])


def _long(document: dict[str, Any]) -> None:
    one_rank(document)
    document["measure"].update(updates=600, quality_updates=0, stall_timeout_s=_STALL_LIMIT_S)


_STALL_LIMIT_S = 10.0
"""Shorter than the pause, which must not count; micro-steps take milliseconds."""
