"""`bench compare --run`: fresh launches side by side, in a folder of their own."""

from __future__ import annotations

import functools
import json
import math
import os
import random
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from bench.cli import main
from bench.drive import driver
from tests.integration.trivial import InstantLauncher, answer_of
from tests.planted import store
from tests.strategies import ok_row

SWEEP = """\
format: 1
name: source
base:
  device: cpu
  model: {preset: gpt2-nano}
  data: {synthetic: {documents: 200, mean_tokens: 20}, rows: ragged}
  seq_len: 32
  global_batch_size: 8
axes:
  micro_batch_size: [1, 2, 4, 8]
  amp_mode: [fp32, bf16]
measure: {warmup_updates: 1, updates: 2, quality_updates: 4}
"""
TOKENS = 100_000

Answer = Callable[[Path, int], dict[str, Any] | None]


def planted(speed: Callable[[dict[str, Any]], float], outcome: Callable[[dict[str, Any]], str]) -> Answer:
    """Answer with a speed that the trial file decides, or with an outcome that is not ok."""

    def answer(folder: Path, rank: int) -> dict[str, Any]:
        trial = json.loads((folder / "trial.json").read_text())
        word = outcome(trial)
        document = answer_of(folder, rank) | {"outcome": word, "reason": None if word == "ok" else "made up"}
        columns = {"valid_tokens": TOKENS, "timed_s": TOKENS / speed(trial), "peak_allocated_bytes": 1000, "flags": []}
        return document | {"columns": columns, "phase": None if word == "ok" else "forward", "error_text": None}

    return answer


def faster_at_four(trial: dict[str, Any]) -> float:
    """Drift from block to block, and 10 % more speed at a micro-batch of 4."""
    drift = 0.9 ** trial["round"]
    return 1000 * drift * (1.1 if trial["config"]["micro_batch_size"] == 4 else 1.0)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[str]]:
    """Put planted answers in the place of ranks; returns the list of launches that are made."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "source.yaml").write_text(SWEEP)
    run_sweep = driver.run_sweep

    def plant(speed=faster_at_four, outcome=lambda trial: "ok", launcher=InstantLauncher) -> list[str]:
        made = launcher(planted(speed, outcome))

        @functools.wraps(run_sweep)
        def in_place(*arguments: Any, **options: Any) -> Any:
            return run_sweep(*arguments, **(options | {"launcher": made, "prove": False}))

        monkeypatch.setattr(driver, "run_sweep", in_place)
        return made.launched

    return plant


def compare(*words: str) -> Result:
    return CliRunner().invoke(main, ["compare", *words], env={"COLUMNS": "140"})


BOTH = ("fp32 2 x 4", "micro_batch_size == 4 and amp_mode == fp32")


def test_blocks_alternate_and_give_a_verdict(launched: Callable[..., list[str]], tmp_path: Path) -> None:
    """AB BA AB ..., six blocks; the first named is the baseline; the folder is that of a sweep."""
    made = launched()
    result = compare("source.yaml", "--run", *BOTH)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("baseline: fp32 2 x 4")
    assert "faster" in result.stdout
    assert "sign-flip" in result.stdout
    (folder,) = (tmp_path / "results").iterdir()
    one, other = (name.split("-")[0] for name in made[:2])
    assert folder.name.startswith("compare-")
    assert folder.name.endswith(f"-{one}-{other}")
    assert [name.split("-")[0] for name in made] == [one, other, other, one] * 3
    table = pd.read_parquet(folder / "results.parquet")
    assert table["round"].tolist() == [*range(6)] * 2
    assert {path.name for path in folder.iterdir()} >= {"sweep.yaml", "journal.jsonl", "parts", "updates.parquet"}
    again = compare(str(folder), "--format", "json")
    rows = json.loads(again.stdout)["rows"]
    assert (rows[1]["verdict"], rows[1]["rounds"], rows[1]["sign_flip_p"]) == ("faster", 6, 2 / 64)
    assert "note" not in result.stderr


def test_few_blocks_are_warned_of(launched: Callable[..., list[str]]) -> None:
    """An exact test cannot reach 5 % with five."""
    launched()
    result = compare("source.yaml", "--run", *BOTH, "--blocks", "5")
    assert "with 5 blocks the sign-flip test cannot go below p = 0.0625; 5 % takes 6 or more" in result.stderr
    assert "sign-flip" not in result.stdout


def test_configurations_of_results_are_measured_as_they_were(
    launched: Callable[..., list[str]], tmp_path: Path
) -> None:
    """By trial id from a results folder; a preset stands over the length the folder was measured with."""
    launched()
    assert CliRunner().invoke(main, ["sweep", "source.yaml", "--no-plot"]).exit_code == 0
    ids = pd.read_parquet("results/source/results.parquet")["trial_id"].tolist()
    assert compare("results/source", "--run", ids[2], ids[4][:8], ids[0], "--out", "three").exit_code == 0
    kept = (tmp_path / "three" / "sweep.yaml").read_text()
    assert "updates: 2" in kept
    assert pd.read_parquet("three/results.parquet")["trial_id"].unique().tolist() == [ids[2], ids[4], ids[0]]
    assert compare("results/source", "--run", ids[2], ids[4], "--preset", "quick", "--out", "quick").exit_code == 0
    assert "preset: quick" in (tmp_path / "quick" / "sweep.yaml").read_text()
    bare = tmp_path / "bare.parquet"
    bare.write_bytes((tmp_path / "results" / "source" / "results.parquet").read_bytes())
    told = compare("bare.parquet", "--run", ids[2], ids[4], "--out", "bare")
    assert "preset normal" in told.stderr
    assert "preset: normal" in (tmp_path / "bare" / "sweep.yaml").read_text()


REFUSED = [
    (["fp32 2 x 4", "micro_batch_size == 5"], "matches no configuration of source.yaml. It holds: fp32 1 x 8"),
    (["fp32 2 x 4", "micro_batch_size == 4"], "matches 2 configurations of source.yaml: fp32 4 x 2 ("),
    (["fp32 2 x 4", "micro_batch_size == 2 and amp_mode == fp32"], "are the same configuration, fp32 2 x 4 (trial "),
    (["fp32 2 x 4", "fp32 9 x 9"], "'fp32 9 x 9' matches no configuration"),
    (["fp32 2 x 4", "micro_batch == 4"], "Did you mean micro_batch_size"),
    (["fp32 2 x 4", "timed_s > 3"], "not known before a launch"),
    (["fp32 2 x 4"], "1 configuration is too few"),
    (["fp32 2 x 4", "fp32 4 x 2", "--blocks", "1"], "1 is not in the range"),
    (
        ["fp32 2 x 4", "fp32 4 x 2", "--baseline", "micro_batch_size == 2"],
        "the baseline first: leave out --baseline and --where",
    ),
    (["fp32 2 x 4", "fp32 4 x 2", "--reference", "cpu-quickstart"], "--run does not go with --reference"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED)
def test_what_cannot_be_meant_runs_nothing(launched: Callable[..., list[str]], words: list[str], said: str) -> None:
    """Exit 2, what there is to choose from, and no folder."""
    made = launched()
    result = compare("source.yaml", "--run", *words)
    assert (result.exit_code, made) == (2, [])
    assert said in " ".join(result.stderr.split())
    assert not Path("results").exists()


def test_options_of_a_run_need_one(launched: Callable[..., list[str]]) -> None:
    """Stored results are compared as they are."""
    result = compare("source.yaml", "--blocks", "8", "--device", "cpu")
    assert result.exit_code == 2
    assert "--blocks, --device needs --run" in result.stderr


def test_unlike_work_is_refused_before_anything_runs(launched: Callable[..., list[str]], tmp_path: Path) -> None:
    """Unless told to; then with a banner."""
    made = launched()
    (tmp_path / "unlike.yaml").write_text(
        SWEEP.split("axes:")[0].replace("global_batch_size: 8", "micro_batch_size: 2")
        + "trials: [{global_batch_size: 8}, {global_batch_size: 16}]\nmeasure: {updates: 2}\n"
    )
    refused = compare("unlike.yaml", "--run")
    assert (refused.exit_code, made) == (2, [])
    assert "different global batches: global_batch_size 8 against 16" in refused.stderr
    forced = compare("unlike.yaml", "--run", "--force")
    assert forced.exit_code == 0
    assert "FORCED" in forced.stderr
    assert len(made) == 12


def test_what_cannot_run_here_is_refused_before_anything_runs(
    launched: Callable[..., list[str]], tmp_path: Path
) -> None:
    """Results of another machine may hold what this one lacks; the reason is that of a sweep's skip."""
    made = launched()
    settings = {"device": "cuda", "model": {"preset": "gpt2-nano"}, "global_batch_size": 8, "accumulation_steps": 8}
    rows = [
        ok_row(trial_id=f"{number:012x}", amp_mode=mode, config_json=json.dumps(settings | {"amp_mode": mode}))
        for number, mode in enumerate(("fp32", "tf32", "bf16"))
    ]
    store(tmp_path / "gpu", rows)
    result = compare("gpu", "--run", "fp32 1 x 8", "tf32 1 x 8", "--device", "cpu", "--preset", "quick")
    assert (result.exit_code, made) == (2, [])
    assert "tf32 1 x 8 cannot run here: amp_mode = tf32 is the same as fp32 on a CPU" in result.stderr
    both = compare("gpu", "--run", "fp32 1 x 8", "bf16 1 x 8", "--device", "cpu", "--preset", "quick")
    assert both.exit_code == 0, both.stderr
    assert len(made) == 12


def test_what_does_not_fit_is_a_result(launched: Callable[..., list[str]]) -> None:
    """On either side: exit 0, and no ratio."""
    launched(outcome=lambda trial: "oom" if trial["config"]["micro_batch_size"] == 4 else "ok")
    candidate = compare("source.yaml", "--run", *BOTH, "--out", "candidate")
    assert candidate.exit_code == 0, candidate.stderr
    assert "does not fit (oom: made up)" in candidate.stdout
    baseline = compare("source.yaml", "--run", *reversed(BOTH), "--out", "baseline")
    assert baseline.exit_code == 0, baseline.stderr
    assert "the baseline does not fit" in baseline.stdout
    gated = compare("source.yaml", "--run", *BOTH, "--out", "candidate", "--fail-on", "slower")
    assert gated.exit_code == 1


def test_a_failure_is_exit_1_and_names_the_folder(launched: Callable[..., list[str]]) -> None:
    """A crash is no property of a configuration; of one launch in six, the rest is still compared."""
    launched(outcome=lambda trial: "failed" if trial["config"]["micro_batch_size"] == 4 else "ok")
    result = compare("source.yaml", "--run", *BOTH, "--out", "failed")
    assert result.exit_code == 1
    assert "bench show failed" in result.stderr
    launched(
        outcome=lambda trial: "failed" if (trial["config"]["micro_batch_size"], trial["round"]) == (4, 3) else "ok"
    )
    partly = compare("source.yaml", "--run", *BOTH, "--out", "partly")
    assert partly.exit_code == 1
    assert "faster" in partly.stdout
    assert "failed in 1 of 6 launches" in partly.stdout


class Interrupting(InstantLauncher):
    """Get a Ctrl-C after five launches."""

    def run(self, *arguments: Any, **options: Any) -> Any:
        end = super().run(*arguments, **options)
        if len(self.launched) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return end


def test_ctrl_c_keeps_what_is_finished_and_the_command_it_prints_goes_on(launched: Callable[..., list[str]]) -> None:
    """In the same order, to the same folder; nothing runs twice."""
    first = launched(launcher=Interrupting)
    broken = compare("source.yaml", "--run", *BOTH)
    assert broken.exit_code == 130
    assert len(first) == 5
    command = broken.stderr.splitlines()[-1].split("bench compare ")[1]
    assert "--out results/compare-" in command
    second = launched()
    result = compare(*shlex.split(command))
    assert result.exit_code == 0, result.stderr
    assert len(second) == 7
    one, other = (name.split("-")[0] for name in first[:2])
    assert [name.split("-")[0] for name in first + second] == [one, other, other, one] * 3
    assert "faster" in result.stdout
    third = launched()
    assert compare(*shlex.split(command)).stdout == result.stdout
    assert third == []


def test_another_comparison_is_kept_out_of_a_folder(launched: Callable[..., list[str]]) -> None:
    """Blocks hold launches made side by side; a third configuration, or another baseline, was not."""
    made = launched()
    assert compare("source.yaml", "--run", *BOTH, "--out", "mine").exit_code == 0
    before = len(made)
    for others in ((*BOTH, "fp32 1 x 8"), tuple(reversed(BOTH))):
        result = compare("source.yaml", "--run", *others, "--out", "mine")
        assert (result.exit_code, len(made)) == (2, before)
        assert "not the comparison of these configurations in this order" in result.stderr


def test_equal_configurations_get_no_false_verdict(launched: Callable[..., list[str]]) -> None:
    """A/A on planted noise with drift: never faster, never slower."""
    noise = random.Random(7)
    launched(speed=lambda trial: 1000 * math.exp(-0.03 * trial["round"] + noise.gauss(0, 0.006)))
    for number in range(10):
        result = compare("source.yaml", "--run", *BOTH, "--out", f"aa-{number}", "--format", "json")
        assert json.loads(result.stdout)["rows"][1]["verdict"] in ("same", "unclear")


@pytest.mark.slow
def test_two_real_configurations_from_start_to_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real ranks on this machine; equal loss curves, proofs in the rows."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "source.yaml").write_text(SWEEP)
    result = compare("source.yaml", "--run", *BOTH, "--blocks", "2", "--out", "real", "--format", "json")
    assert result.exit_code == 0, result.stderr
    base, candidate = json.loads(result.stdout)["rows"]
    assert (base["name"], candidate["name"]) == ("fp32 2 x 4", "fp32 4 x 2")
    assert (candidate["rounds"], candidate["loss"]) == (2, "agree")
    assert candidate["verdict"] in ("faster", "slower", "same", "unclear")
    table = pd.read_parquet(tmp_path / "real" / "results.parquet")
    assert table["proof"].tolist() == ["PASS"] * 4
