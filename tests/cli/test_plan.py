"""`bench plan`: the whole output, in every format, on machines that are named instead of looked at."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bench.cli import main

SWEEP = """\
# Question: does it plan?
format: 1
name: planned
base:
  model: {preset: gpt2-nano}
  seq_len: 64
  global_batch_size: 12
axes:
  micro_batch_size: [4, 8]
  amp_mode: [fp32, tf32, bf16]
skip:
  - {when: {amp_mode: bf16, micro_batch_size: 4}, reason: "Not wanted."}
measure: {warmup_updates: 1, updates: 2, rounds: 3, timeout_s: 60}
"""

TABLE = """\
does it plan?

every trial: global batch size 12, token slots/update 768

 trial          micro batch size   amp mode   accumulation steps
 ───────────────────────────────────────────────────────────────
 5fa376348810                  4   fp32                        3
 d02d6b52c051                  4   tf32                        3

skipped 1: Not wanted.
    micro_batch_size=4 amp_mode=bf16
skipped 3: global_batch_size = 12 is not a multiple of micro_batch_size x world_size = 8 x 1. \
Use micro_batch_size 6 or 12, or global_batch_size 8 or 16.
    micro_batch_size=8 amp_mode=fp32
    micro_batch_size=8 amp_mode=tf32
    micro_batch_size=8 amp_mode=bf16

6 combinations: 2 trials, 4 skipped; 3 rounds, so 6 launches
at most 6.00 min and 0.1 GPU-hours (measure.timeout_s = 60 s per launch)
"""


@pytest.fixture
def sweep_file(tmp_path: Path) -> Path:
    path = tmp_path / "planned.yaml"
    path.write_text(SWEEP, encoding="utf-8")
    return path


def plan(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["plan", *map(str, arguments)])


def test_the_table_shows_trials_then_skips_then_totals(sweep_file: Path) -> None:
    """The complete text for people; nothing on stderr."""
    result = plan(sweep_file, "--gpus", 1)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == TABLE


def test_json_holds_every_combination_in_base_units(sweep_file: Path) -> None:
    """One document on stdout, null for missing, the summary on stderr."""
    result = plan(sweep_file, "--gpus", 1, "--format", "json")
    document = json.loads(result.stdout)
    assert document["format"] == 1
    assert [row["outcome"] for row in document["rows"]] == ["planned", "planned", *["skipped"] * 4]
    first, last = document["rows"][0], document["rows"][-1]
    assert first["reason"] is None
    assert (first["accumulation_steps"], first["most_token_slots_per_update"], first["launches"]) == (3, 768, 3)
    assert last["accumulation_steps"] is None
    assert last["reason"].startswith("global_batch_size = 12 is not a multiple")
    assert "6 launches" in result.stderr


def test_csv_has_one_line_per_combination_and_whole_numbers(sweep_file: Path) -> None:
    """A missing accumulation_steps leaves its column empty and the others whole."""
    result = plan(sweep_file, "--gpus", 1, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["accumulation_steps"] for row in rows] == ["3", "3", "3", "", "", ""]
    assert {row["amp_mode"] for row in rows} == {"fp32", "tf32", "bf16"}
    assert "6 launches" in result.stderr


def test_markdown_is_a_table_of_the_trials(sweep_file: Path) -> None:
    """It can be pasted into an issue."""
    result = plan(sweep_file, "--gpus", 1, "--format", "markdown")
    heading, rule, *lines = result.stdout.splitlines()
    assert heading.split("|")[1].strip() == "trial"
    assert set(rule) <= set("|:-")
    assert len(lines) == 2


def test_the_device_of_the_command_wins(sweep_file: Path) -> None:
    """On a CPU tf32 is a skip: the same as fp32."""
    result = plan(sweep_file, "--device", "cpu", "--format", "json")
    rows = json.loads(result.stdout)["rows"]
    assert {row["device"] for row in rows} == {"cpu"}
    assert rows[1]["reason"].startswith("amp_mode = tf32 is the same as fp32 on a CPU")
    assert "GPU-hours" not in result.stderr


def test_too_few_gpus_are_skips(sweep_file: Path) -> None:
    """A plan for a small machine says what it cannot run."""
    sweep_file.write_text(
        SWEEP.replace("  amp_mode: [fp32,", "  world_size: [1, 3]\n  amp_mode: [fp32,"), encoding="utf-8"
    )
    assert "world_size = 3 needs 3 GPUs, but only 2 are usable here" in plan(sweep_file, "--gpus", 2).stdout
    assert "needs 3 GPUs" not in plan(sweep_file, "--gpus", 3).stdout


def test_every_fault_of_the_file_is_printed_and_the_exit_code_is_2(sweep_file: Path) -> None:
    """Nothing on stdout, all faults on stderr, each with its line."""
    text = (
        SWEEP.replace("seq_len: 64", "seq_len: 6400")
        .replace("gpt2-nano", "gpt2-nanno")
        .replace("rounds: 3", "rounds: x")
    )
    sweep_file.write_text(text, encoding="utf-8")
    result = plan(sweep_file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert [line.split(":")[1] for line in result.stderr.splitlines() if line.startswith(str(sweep_file))] == [
        "5",
        "13",
    ]


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    """Exit code 2 and a sentence."""
    result = plan(tmp_path / "none.yaml")
    assert result.exit_code == 2
    assert "no such file" in result.stderr


def test_help_has_an_example_and_the_default() -> None:
    """Help is written to be pasted."""
    text = plan("--help").stdout
    assert "List the trials of a sweep without running any." in text
    assert "  bench plan sweeps/a100-gpt2-124m.yaml --gpus 1\n" in text
    assert "[default: table]" in text


DATA = SWEEP.replace("  seq_len: 64", "  data: {DATA}\n  seq_len: 64")


@pytest.mark.parametrize("command", ["plan", "sweep"])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("text: 'none*.txt'", "data.text = none*.txt matches no file"),
        ("tokens: none.bin", "data.tokens = none.bin: there is no file"),
        ("tokens: ids.npy", "data.tokens = ids.npy is a numpy file (.npy) with 2 dimensions"),
        ("tokens: wide.bin", "data.tokens = wide.bin holds uint32 ids, it seems"),
    ],
)
def test_files_of_data_are_looked_at_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, data: str, said: str
) -> None:
    """Exit 2 with file and line; no results folder is made, and torch is never asked for."""
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "ids.npy", np.arange(500, dtype="uint16").reshape(5, 100))
    np.arange(500, dtype="uint32").tofile(tmp_path / "wide.bin")
    Path("data.yaml").write_text(DATA.replace("DATA", data), encoding="utf-8")
    result = CliRunner().invoke(main, [command, "data.yaml", "--device", "cpu"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: data.yaml:6: {said}")
    assert not (tmp_path / "results").exists()


def test_every_bad_file_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An axis of files is looked at value by value."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.txt").write_text("text")
    axes = "axes:\n  data.text: [there.txt,\n    not.txt, nor.txt]\n"
    (tmp_path / "data.yaml").write_text(SWEEP.replace("axes:\n", axes), encoding="utf-8")
    result = plan("data.yaml", "--device", "cpu")
    lines = result.stderr.splitlines()
    assert (result.exit_code, lines[0], len(lines)) == (2, "Errors:", 3)
    assert lines[1].startswith("data.yaml:10: data.text = not.txt matches no file")
    assert lines[2].startswith("data.yaml:10: data.text = nor.txt matches no file")


def test_plan_for_another_machine_only_says_what_is_missing_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files may be there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.yaml").write_text(DATA.replace("DATA", "text: none.txt"), encoding="utf-8")
    result = plan("data.yaml", "--gpus", 1)
    assert result.exit_code == 0
    assert result.stderr.startswith("here: data.yaml:6: data.text = none.txt matches no file")
