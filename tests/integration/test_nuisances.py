"""Small things that go wrong around a sweep: lost readers, huge output, a peer that never comes. Real processes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.cli.progress import SweepProgress
from bench.drive.work import rank_launcher
from bench.launch import files as launch_files
from tests.integration import trivial
from tests.integration.conftest import Beats, Brief, stands
from tests.patience import PATIENCE_S
from tests.requirements import require_program

pytestmark = pytest.mark.slow


@pytest.mark.ddp
def test_rank_whose_peer_never_joins_times_out_at_the_start(lab: Any) -> None:
    """F29: the rendezvous has a limit, and the phase says where it waited."""

    def two_ranks(document: dict[str, Any]) -> None:
        document["axes"] = {"micro_batch_size": [1, 2]}
        document["base"]["world_size"] = 2

    def one_waits_for_the_other(beats: Beats) -> bool:
        return stands("join", rank=0)(beats) and stands("build", rank=1)(beats)

    sweep = lab.sweep(two_ranks)
    bad = lab.trials(sweep)[0]
    lab.run(sweep, f"{bad.trial_id}/build@1:1:sleep", brief=Brief(bad, one_waits_for_the_other, start_s=2.0))
    rows = lab.rows()
    assert rows["outcome"].to_dict() == {1: "timeout", 2: "ok"}
    assert "start limit of 2 s (rank 1: build; rank 0: join)" in rows.loc[1, "reason"]
    assert rows.loc[1, ["failing_rank", "phase"]].tolist() == [1, "build"]
    assert "most recent call first" in rows.loc[1, "error_text"], "where rank 1 was"
    waiting = next((lab.folder / "results" / "logs").glob(f"{bad.trial_id}-*/rank-0.stacks")).read_text()
    assert "in join" in waiting, "where its peer was"


@pytest.mark.ddp
def test_port_and_address_in_the_environment_are_not_inherited(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """F29: ranks of one machine meet through a file, whatever MASTER_PORT says.

    Case: https://github.com/TorchDR/TorchDR/issues/249 and kin, a fixed port that is taken.
    """
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(taken.getsockname()[1]))
        lab.launcher = rank_launcher()
        lab.run(lab.sweep(lambda document: document.update(axes={"micro_batch_size": [1]}), world_size=2))
    assert lab.rows()["outcome"].tolist() == ["ok"]


@pytest.mark.ddp
def test_ranks_meet_though_the_file_system_of_the_results_refuses_locks(lab: Any) -> None:
    """F29: cluster file systems may lack flock, which torch's file store needs; that of TMPDIR lacks it too here."""
    library = lab.folder / "no_flock.so"
    source = Path(__file__).parents[1] / "no_flock" / "no_flock.c"
    command = [require_program("gcc"), "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", library, source]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    lab.sweep(lambda document: document.update(axes={"micro_batch_size": [1]}), world_size=2)
    with tempfile.TemporaryDirectory() as folder:  # its name is short: a socket of the fork server lies in TMPDIR too
        refused = {"LD_PRELOAD": str(library), "NO_FLOCK_BELOW": folder, "TMPDIR": folder}
        command = [sys.executable, "-m", "bench.cli", "sweep", str(lab.folder / "sweep.yaml"), "--out", "results"]
        done = subprocess.run(command, cwd=folder, env=os.environ | refused, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (told,) = (Path(folder) / "results" / "logs").glob("*-r0-a0/rendezvous")
        place = Path(told.read_text())
        assert not place.is_relative_to(folder)
        assert not place.parent.exists(), "left behind"


def test_log_without_end_is_cut_back_to_its_cap(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """F32: a rank that prints all the time fills no disk; what it printed last is kept."""
    monkeypatch.setattr(launch_files, "_LOG_CAP_BYTES", 100_000)

    sweep = lab.sweep(lambda document: document.update(axes={"micro_batch_size": [1]}))
    brief = Brief(lab.trials(sweep)[0], stands("forward", micro_steps=5), stall_s=2.0)
    lab.run(sweep, "forward:5:print", "forward:6:sleep", brief=brief)
    assert lab.rows()["outcome"].tolist() == ["hang"]
    (log,) = (lab.folder / "results" / "logs").glob("*/rank-0.log")
    assert log.stat().st_size <= 100_000


def test_sweep_goes_on_when_nobody_reads_what_it_says(lab: Any) -> None:
    """F32: `bench sweep ... 2>&1 | head -1` must not end a sweep of hours."""
    lab.sweep()
    command = [sys.executable, "-m", "bench.cli", "sweep", str(lab.folder / "sweep.yaml"), "--no-plot"]
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen([*command, "--out", str(lab.folder / "results")], stdout=writer, stderr=writer)
    os.close(writer)
    assert process.wait(timeout=PATIENCE_S) == 0
    assert lab.rows()["outcome"].tolist() == ["ok", "ok", "ok"]


def test_sweep_goes_on_when_what_it_says_cannot_be_written(lab: Any) -> None:
    """F32: as when its output goes to a file on a full disk."""
    lab.sweep()
    command = [sys.executable, "-m", "bench.cli", "sweep", str(lab.folder / "sweep.yaml"), "--no-plot"]
    with Path("/dev/full").open("w") as full:
        command += ["--out", str(lab.folder / "results")]
        done = subprocess.run(command, stdout=full, stderr=full, timeout=PATIENCE_S)
    assert done.returncode == 4, "the table could not be printed"
    assert lab.rows()["outcome"].tolist() == ["ok", "ok", "ok"]


def test_progress_says_what_is_left_and_sums_the_failures_up(tmp_path: Any) -> None:
    """Without a terminal: one line per launch with the time left, and at the end every failure with its reason."""
    text = io.StringIO()
    sweep = trivial.sweep_of({"seed": list(range(6))})
    with SweepProgress(Console(file=text, width=200)) as progress:
        trivial.run(sweep, tmp_path / "results", progress=progress)
    lines = text.getvalue().splitlines()
    assert lines[0] == "6 to run"
    assert "5 left, about" in lines[1]
    failures = [row for row in trivial.facts_of(tmp_path / "results").to_dict("records") if row["outcome"] != "ok"]
    assert failures
    (start,) = (number for number, line in enumerate(lines) if "launches of this run failed" in line)
    assert lines[start] == f"{len(failures)} of 6 launches of this run failed:"
    for failure in failures:
        assert any(failure["reason"] in line and failure["trial_id"] in line for line in lines[start:])


def test_launch_during_which_others_used_the_gpu_is_run_once_more(tmp_path: Any) -> None:
    """F36: and only once, however it goes then."""

    def shared(folder: Any, rank: int) -> dict[str, Any]:
        answer = trivial.answer_of(folder, rank)
        return answer | {"outcome": "ok", "columns": answer["columns"] | {"flags": ["gpu_shared"]}}

    launcher = trivial.InstantLauncher(shared)
    sweep = trivial.sweep_of({"seed": [0, 1]})
    assert trivial.run(sweep, tmp_path / "results", launcher=launcher).launched == 4
    assert trivial.run(sweep, tmp_path / "results", launcher=launcher).launched == 0


def test_clock_that_is_set_during_a_launch_is_flagged_and_moves_no_duration(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F28: durations are monotonic; the wall clock is for labels."""
    from bench.drive import recorded_launches

    jumps = iter([0.0, 3600.0])
    monkeypatch.setattr(recorded_launches, "_clocks", lambda: next(jumps))
    trivial.run(trivial.sweep_of({"seed": [0]}), tmp_path / "results")
    (row,) = trivial.facts_of(tmp_path / "results", "flags", "launch_s").to_dict("records")
    assert list(row["flags"]) == ["clock_step"]
    assert row["launch_s"] == 0.01
