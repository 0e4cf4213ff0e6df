"""`bench check`: arguments, checklists and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bench.check.exchange.lines import Line
from bench.check.exchange.request import ProofRequest
from bench.cli import main
from bench.sweep.expand import MachineFacts

SWEEP = """\
# Question: what is proved?
format: 1
name: asked
base:
  device: cpu
  model: {preset: gpt2-nano}
  global_batch_size: 8
axes:
  micro_batch_size: [1, 2, 4]
  amp_mode: [fp32, tf32, bf16]
measure: {warmup_updates: 1, updates: 2}
"""


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments])


@pytest.fixture
def sweep(tmp_path: Path) -> str:
    path = tmp_path / "asked.yaml"
    path.write_text(SWEEP)
    return str(path)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ProofRequest]:
    """Answer every request without a process; what it says is in `ANSWERS`, by AMP mode."""
    requests: list[ProofRequest] = []

    def answer(request: ProofRequest, *_: Any, **__: Any) -> list[Line]:
        requests.append(request)
        return ANSWERS[request.amp_mode]

    monkeypatch.setattr("bench.drive.proofs.run_proof", answer)
    monkeypatch.setattr("bench.launch.launcher.Launcher.warm_up", lambda self: None)
    return requests


RIGHT = Line("weighting", "PASS", 3e-16, "relative error 3e-16")
WRONG = Line("weighting", "FAIL", 1.17, "relative error 1.17")
OPEN = Line("precision", "NOT PROVEN", None, "the time was up")
ANSWERS = {"fp32": [RIGHT], "bf16": [RIGHT, OPEN], "fp16": [WRONG]}


def test_each_distinct_configuration_is_proved_once(sweep: str, asked: list[ProofRequest]) -> None:
    """Micro-batch sizes do not matter; what is skipped here is not proved."""
    result = check(sweep, "--time-limit-s", "9")
    assert [(request.amp_mode, request.time_limit_s) for request in asked] == [("fp32", 9.0), ("bf16", 9.0)]
    assert result.exit_code == 0, "NOT PROVEN is no failure"
    assert result.stdout == (
        "gpt2-nano, fp32, world size 1: PASS\n"
        "  PASS            the gradient equals that of one concatenated batch\n"
        "                  relative error 3e-16\n\n"
        "gpt2-nano, bf16, world size 1: NOT PROVEN\n"
        "  PASS            the gradient equals that of one concatenated batch\n"
        "                  relative error 3e-16\n"
        "  NOT PROVEN      the error in the configured precision is at most twice that of one concatenated batch\n"
        "                  the time was up\n\n"
        "2 configurations: 1 PASS, 1 NOT PROVEN\n"
    )


def test_a_failed_line_ends_with_exit_code_1(sweep: str, asked: list[ProofRequest]) -> None:
    """Also where other configurations pass."""
    Path(sweep).write_text(SWEEP.replace("tf32, bf16", "fp16"))
    assert check(sweep).exit_code == 1


def test_json_is_one_document_with_a_row_per_line(sweep: str, asked: list[ProofRequest]) -> None:
    """Column names of the results, null where there is no figure; words for people go to stderr."""
    result = check(sweep, "--format", "json")
    document = json.loads(result.stdout)
    assert document["format"] == 1
    assert [(row["amp_mode"], row["line"], row["verdict"], row["figure"]) for row in document["rows"]] == [
        ("fp32", "weighting", "PASS", 3e-16),
        ("bf16", "weighting", "PASS", 3e-16),
        ("bf16", "precision", "NOT PROVEN", None),
    ]
    assert [row["proof"] for row in document["rows"]] == ["PASS", "NOT PROVEN", "NOT PROVEN"]
    assert "2 configurations" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Nothing to prove: give a sweep file, --step or --model."),
        (["SWEEP", "--step", "a:b"], "Leave one out."),
        (["no-such.yaml"], "no-such.yaml"),
    ],
)
def test_bad_arguments_end_with_exit_code_2(
    sweep: str, asked: list[ProofRequest], arguments: list[str], words: str
) -> None:
    """The message says what to do; nothing is proved."""
    result = check(*[sweep if argument == "SWEEP" else argument for argument in arguments])
    assert result.exit_code == 2
    assert words in result.stderr
    assert asked == []


def test_sweep_whose_trials_are_all_skipped_is_an_error(
    sweep: str, asked: list[ProofRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing proved is not success: eight ranks on a machine with one GPU, say."""
    monkeypatch.setattr("bench.cli.load.machine_facts", lambda devices: MachineFacts("cuda", 1))
    Path(sweep).write_text(SWEEP.replace("device: cpu", "device: cuda\n  world_size: 8").replace("[1, 2, 4]", "[1]"))
    result = check(sweep)
    assert result.exit_code == 2
    assert ": every trial is skipped on this machine: " in result.stderr
    assert "needs 8 GPUs" in result.stderr
    assert asked == []


def test_step_is_asked_for_from_the_current_folder(asked: list[ProofRequest], tmp_path: Path) -> None:
    """A user's module is found as `python -m` finds it."""
    assert check("--step", "mine:step", "--model", "llama-nano").exit_code == 0
    (request,) = asked
    assert (request.step, request.model, request.working_directory) == ("mine:step", "llama-nano", str(Path.cwd()))
