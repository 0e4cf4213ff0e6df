"""A second run does what is missing and nothing else; conditions that changed are refused. Real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.drive.lock import hold
from bench.errors import BenchError, LockedError
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow


def test_finished_sweep_runs_nothing_again_and_leaves_its_tables_as_they_are(lab: Any) -> None:
    """The second run launches nothing and does not touch the results."""
    sweep = lab.sweep()
    assert lab.run(sweep).launched == 3
    before = (lab.folder / "results" / "results.parquet").read_bytes()
    again = lab.run(sweep)
    assert (again.launched, again.already_done) == (0, 3)
    assert (lab.folder / "results" / "results.parquet").read_bytes() == before


def test_new_axis_values_and_rounds_extend_a_sweep(lab: Any) -> None:
    """Only the new trial, and then only the new round, is launched."""

    def fewer(document: dict[str, Any]) -> None:
        document["axes"]["micro_batch_size"] = [1, 2]

    def another_round(document: dict[str, Any]) -> None:
        document["measure"]["rounds"] = 2

    lab.run(lab.sweep(fewer))
    assert lab.run(lab.sweep()).launched == 1
    assert lab.run(lab.sweep(another_round)).launched == 3
    table = pd.read_parquet(lab.folder / "results" / "results.parquet")
    assert len(table) == 6
    assert table.groupby("trial_id", observed=True)["round"].apply(sorted).tolist() == [[0, 1]] * 3


def test_other_measuring_conditions_are_refused_with_the_differing_key(lab: Any) -> None:
    """Rows of one folder must compare, so a changed measure is no resume."""

    def longer(document: dict[str, Any]) -> None:
        document["measure"]["updates"] = 3

    lab.run(lab.sweep())
    with pytest.raises(BenchError, match=r"measure.updates was 2 and is now 3.*--out.*--fresh"):
        lab.run(lab.sweep(longer))


def test_failed_launch_is_kept_until_a_retry_is_asked_for_and_three_times_at_most(lab: Any) -> None:
    """`retry_failed` runs failures again, in a new attempt, and gives up after the third."""
    sweep = lab.sweep()
    bad = lab.trials(sweep)[1]
    fault = f"{bad.trial_id}/forward:1:raise"
    assert lab.run(sweep, fault).launched == 3
    assert lab.run(sweep, fault).launched == 0
    assert lab.run(sweep, fault, retry_failed=True).launched == 1
    assert lab.run(sweep, fault, retry_failed=True).launched == 1
    assert lab.run(sweep, fault, retry_failed=True).launched == 0
    assert lab.rows().loc[2, "attempt"] == 2


def test_retried_launch_that_goes_well_replaces_the_failure_in_the_table(lab: Any) -> None:
    """The table holds the last attempt; the first stays in its part."""
    sweep = lab.sweep()
    bad = lab.trials(sweep)[1]
    lab.run(sweep, f"{bad.trial_id}/forward:1:raise")
    summary = lab.run(sweep, retry_failed=True)
    assert summary.failed == 0
    assert lab.rows()["outcome"].tolist() == ["ok"] * 3
    assert len(list((lab.folder / "results" / "parts").glob(f"{bad.trial_id}-r0-a*.parquet"))) == 4


def test_second_sweep_on_a_folder_is_refused_while_the_first_writes(lab: Any) -> None:
    """The lock is held for the whole run, and the refusal names the folder."""
    (lab.folder / "results").mkdir()
    with hold(lab.folder / "results" / ".lock"), pytest.raises(LockedError, match="another sweep is writing"):
        lab.run(lab.sweep())


def test_skipped_trials_have_one_row_with_the_reason(lab: Any) -> None:
    """An indivisible cut is a row with outcome skipped and no round."""

    def indivisible(document: dict[str, Any]) -> None:
        document["axes"]["micro_batch_size"] = [1, 3]

    lab.run(lab.sweep(indivisible))
    row = lab.rows().loc[3]
    assert row["outcome"] == "skipped"
    assert pd.isna(row["round"])
    assert "4" in row["reason"]


def _start_command(folder: Path, faults: Path, sweep: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.cli", "sweep", str(sweep), "--out", str(folder), "--no-plot"]
    environment = os.environ | {"BENCH_FAULTS": str(faults)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_sweep_keeps_what_is_finished_says_so_and_resumes(
    lab: Any, tmp_path: Path, number: signal.Signals
) -> None:
    """The exit code names the signal, the launch under way is `interrupted`, and the next run does the rest."""
    sweep = lab.sweep()
    faults = tmp_path / "own-faults"
    # The order of launches is fixed: the second to run sleeps until the signal comes.
    from bench.drive.schedule import places

    _, second, *_ = (place.point for place in places(lab.trials(sweep), 1))
    faults.write_text(f"{second.trial_id}/update:1:sleep")
    folder = lab.folder / "results"
    process = _start_command(folder, faults, tmp_path / "sweep.yaml")
    heartbeat = folder / "logs" / f"{second.trial_id}-r0-a0" / "rank-0.heartbeat"
    wait_until(heartbeat.exists, "the second launch begins")
    process.send_signal(number)
    _, messages = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number, messages
    assert "finished launches are kept" in messages
    outcomes = pd.read_parquet(folder / "results.parquet")["outcome"].tolist()
    assert sorted(outcomes) == ["interrupted", "ok"]
    assert lab.run(sweep).launched == 2
    assert lab.rows()["outcome"].tolist() == ["ok"] * 3


def test_no_process_is_left_after_the_driver_is_killed(lab: Any, tmp_path: Path) -> None:
    """SIGKILL of the driver takes server and ranks with it, and the next run goes on."""
    import psutil

    sweep = lab.sweep()
    faults = tmp_path / "own-faults"
    faults.write_text("update:1:sleep")
    folder = lab.folder / "results"
    process = _start_command(folder, faults, tmp_path / "sweep.yaml")
    # A proof would end by itself: it has no attempt.
    wait_until(lambda: any(folder.glob("logs/*-r0-a0/rank-0.heartbeat")), "a launch begins")
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 2, "the fork server and a rank"
    process.kill()
    process.communicate(timeout=PATIENCE_S)

    def are_gone() -> bool:
        gone = 0
        for child in children:
            try:
                gone += child.status() == psutil.STATUS_ZOMBIE
            except psutil.NoSuchProcess:
                gone += 1
        return gone == len(children)

    wait_until(are_gone, "server and ranks end with their driver")
    assert lab.run(sweep).launched == 3
