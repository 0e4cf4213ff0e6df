"""A launch that goes wrong becomes the right row, and the sweep goes on. Real processes."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.drive.driver import run_sweep
from bench.drive.work import rank_launcher
from bench.launch import rank_process
from bench.launch.launcher import Launcher
from tests.integration.conftest import CPU, Brief, Silent, stands
from tests.integration.trivial import PATIENT

pytestmark = pytest.mark.slow

# The second of the three trials misbehaves; the third forward is of its second update's first micro-batch.
FAULTS = [
    ("forward:3:oom", "oom", "forward"),
    ("backward:3:oom", "oom", "backward"),
    ("update:2:oom", "oom", "update"),
    ("forward:3:raise", "failed", "forward"),
    ("build:1:raise", "failed", "build"),
    ("data:1:raise", "failed", "data"),
    ("backward:3:raise", "failed", "backward"),
    ("update:2:raise", "failed", "update"),
    ("finish:1:raise", "failed", "finish"),
    ("backward:2:kill", "killed", "backward"),
    ("update:1:kill", "killed", "update"),
    ("forward:1:exit", "failed", "forward"),
    ("forward:1:sys_exit", "failed", "forward"),
]


@pytest.mark.parametrize(("fault", "outcome", "phase"), FAULTS)
def test_fault_becomes_a_row_with_outcome_and_phase_and_the_sweep_goes_on(
    lab: Any, fault: str, outcome: str, phase: str
) -> None:
    """One bad trial gets its outcome and phase; the trials before and after it are ok."""
    sweep = lab.sweep()
    bad = lab.trials(sweep)[1]
    summary = lab.run(sweep, f"{bad.trial_id}/{fault}")
    rows = lab.rows()
    assert rows["outcome"].to_dict() == {1: "ok", 2: outcome, 4: "ok"}
    assert rows.loc[2, "phase"] == phase
    assert rows.loc[2, "reason"]
    assert summary.failed == (outcome != "oom")
    assert rows.loc[2, "failing_rank"] == 0
    assert rows["valid_tokens_per_s"].isna().to_dict() == {1: False, 2: True, 4: False}


@pytest.mark.ddp
@pytest.mark.parametrize("point", ["build:1", "forward:3", "finish:1"])
def test_error_is_kept_with_class_text_and_traceback_of_every_rank(lab: Any, point: str) -> None:
    """F11: two ranks fail in the same way; the row has one of them, the files of the launch have both."""

    def two_ranks(document: dict[str, Any]) -> None:
        document["axes"] = {"micro_batch_size": [1]}
        document["base"]["world_size"] = 2

    lab.run(lab.sweep(two_ranks), f"{point}:raise")
    row = lab.rows().loc[1]
    assert row["outcome"] == "failed"
    assert (row["error_class"], row["error_text"]) == ("builtins.RuntimeError", "a fault on purpose")
    answers = [json.loads(path.read_text()) for path in sorted(lab.folder.glob("results/logs/*/rank-*.json"))]
    assert [answer["rank"] for answer in answers] == [0, 1]
    for answer in answers:
        assert answer["error_class"] == "builtins.RuntimeError"
        assert answer["traceback"].endswith("RuntimeError: a fault on purpose\n")


def test_sys_exit_of_a_trial_is_its_error(lab: Any) -> None:
    """F12: told by class and place, not as a rank that left without a word."""
    lab.run(lab.sweep(lambda document: document.update(axes={"micro_batch_size": [1]})), "forward:3:sys_exit")
    row = lab.rows().loc[1]
    assert (row["outcome"], row["phase"], row["error_class"]) == ("failed", "forward", "builtins.SystemExit")
    assert "left early" not in row["reason"]


def run_without_worker(folder: str, rank: int, parent: int, work: str) -> None:
    """Be a rank whose work cannot be imported."""
    sys.modules["bench.rank.worker"] = None  # type: ignore[assignment]
    rank_process.run(folder, rank, parent, work)


def test_error_at_import_is_failed_with_its_last_words(lab: Any) -> None:
    """F11: nothing of ours could be told by a file yet; what was printed last is quoted."""
    lab.launcher = Launcher(rank_function=run_without_worker, preload=())
    lab.run(lab.sweep(lambda document: document.update(axes={"micro_batch_size": [1]})))
    row = lab.rows().loc[1]
    assert (row["outcome"], row["failing_rank"], row["exit_code"]) == ("failed", 0, 1)
    assert "left early" in row["reason"]
    assert "ModuleNotFoundError: import of bench.rank.worker halted" in row["reason"]


def test_memory_limit_of_the_process_is_oom_on_a_cpu(lab: Any) -> None:
    """An allocation that the kernel refuses is out of memory, with the phase it happened in."""

    def large(document: dict[str, Any]) -> None:
        document["base"]["model"] = {"preset": "gpt2-mini"}
        document["base"]["seq_len"] = 512
        document["base"]["global_batch_size"] = 8
        document["axes"] = {"micro_batch_size": [1, 8]}
        document["measure"] = {"warmup_updates": 0, "updates": 1, "quality_updates": 0, **PATIENT}

    sweep = lab.sweep(large)
    bad = lab.trials(sweep)[1]
    lab.run(sweep, f"{bad.trial_id}/forward:1:limit_memory")
    rows = lab.rows()
    assert rows["outcome"].to_dict() == {1: "ok", 8: "oom"}
    assert rows.loc[8, "phase"] == "forward"
    assert "memory" in rows.loc[8, "error_text"].lower()


def test_killed_launch_names_the_signal_and_the_micro_batch(lab: Any) -> None:
    """SIGKILL leaves no exception; the heartbeat still tells where the rank was."""
    sweep = lab.sweep()
    bad = lab.trials(sweep)[0]
    lab.run(sweep, f"{bad.trial_id}/backward:3:kill")
    row = lab.rows().loc[1]
    assert row["signal"] == 9
    assert "SIGKILL" in row["reason"]
    assert "micro-batch 2" in row["reason"]


def test_chatter_of_a_rank_goes_to_its_log_and_harms_nothing(lab: Any) -> None:
    """Megabytes and bytes that are no text on stdout do not reach the result."""
    sweep = lab.sweep()
    chatty = lab.trials(sweep)[1]
    lab.run(sweep, f"{chatty.trial_id}/forward:1:print")
    assert set(lab.rows()["outcome"]) == {"ok"}
    log = lab.folder / "results" / "logs" / f"{chatty.trial_id}-r0-a0" / "rank-0.log"
    assert log.stat().st_size > 1_000_000


def test_launch_over_its_time_limit_is_a_timeout(lab: Any) -> None:
    """A rank that sleeps is ended at the limit, and the row says where it slept."""
    sweep = lab.sweep()
    slow = lab.trials(sweep)[1]
    brief = Brief(slow, stands("update", micro_steps=4), total_s=1.0)
    lab.run(sweep, f"{slow.trial_id}/update:2:sleep", brief=brief)
    rows = lab.rows()
    assert rows["outcome"].to_dict() == {1: "ok", 2: "timeout", 4: "ok"}
    assert rows.loc[2, "phase"] == "update"


def test_launch_that_never_starts_is_a_timeout_at_the_start_limit(lab: Any) -> None:
    """The start limit is shorter than the whole limit and says so."""
    sweep = lab.sweep()
    stuck = lab.trials(sweep)[0]
    lab.run(sweep, f"{stuck.trial_id}/build:1:sleep", brief=Brief(stuck, stands("build"), start_s=1.0))
    row = lab.rows().loc[1]
    assert row["outcome"] == "timeout"
    assert "start limit" in row["reason"]
    assert row["phase"] == "build"


@pytest.mark.ddp
def test_oom_on_one_rank_names_that_rank_and_ends_the_other(lab: Any) -> None:
    """The rank that ran out of memory is the cause, not the one whose connection broke."""

    def two_ranks(document: dict[str, Any]) -> None:
        document["axes"] = {"micro_batch_size": [1, 2]}
        document["base"]["world_size"] = 2

    sweep = lab.sweep(two_ranks)
    bad = lab.trials(sweep)[0]
    lab.run(sweep, f"{bad.trial_id}/backward@1:3:oom")
    rows = lab.rows()
    assert rows["outcome"].to_dict() == {1: "oom", 2: "ok"}
    assert rows.loc[1, "failing_rank"] == 1
    assert rows.loc[1, "phase"] == "backward"


@pytest.mark.ddp
def test_rank_that_leaves_early_is_named_not_its_peer(lab: Any) -> None:
    """A rank that exits 0 without a result fails the launch under its own name."""

    def two_ranks(document: dict[str, Any]) -> None:
        document["axes"] = {"micro_batch_size": [1]}
        document["base"]["world_size"] = 2

    sweep = lab.sweep(two_ranks)
    lab.run(sweep, "update@1:2:exit")
    row = lab.rows().loc[1]
    assert row["outcome"] == "failed"
    assert row["failing_rank"] == 1
    assert "left early" in row["reason"]


@pytest.mark.ddp
def test_killed_rank_of_two_is_named_and_its_peer_ended(lab: Any) -> None:
    """The peer's broken connection is not the cause, and the next trial runs."""

    def two_ranks(document: dict[str, Any]) -> None:
        document["axes"] = {"micro_batch_size": [1, 2]}
        document["base"]["world_size"] = 2

    sweep = lab.sweep(two_ranks)
    bad = lab.trials(sweep)[0]
    lab.run(sweep, f"{bad.trial_id}/backward@1:3:kill")
    rows = lab.rows()
    assert rows["outcome"].to_dict() == {1: "killed", 2: "ok"}
    assert rows.loc[1, "failing_rank"] == 1
    assert rows.loc[1, "signal"] == 9


@pytest.mark.ddp
def test_ranks_meet_in_a_folder_with_a_relative_and_odd_name(
    lab: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The default folder is relative, and a name may hold what means something else in an address, TMPDIR's too."""
    monkeypatch.chdir(tmp_path)
    temporary = tmp_path / "temporary" / "of #2?"
    temporary.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def two_ranks(document: dict[str, Any]) -> None:
        document["axes"] = {"micro_batch_size": [1]}
        document["base"]["world_size"] = 2

    sweep = lab.sweep(two_ranks)
    folder = Path("results of #1?") / "nano"
    run_sweep(sweep, folder, CPU, Silent(), launcher=rank_launcher())
    assert pd.read_parquet(folder / "results.parquet")["outcome"].tolist() == ["ok"]
    assert list(temporary.parent.iterdir()) == [temporary], "they met at a part of its name"
