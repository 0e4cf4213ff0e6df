"""`bench init`: what it prints and writes, and that the commands it prints work on what it wrote."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench.cli import main
from bench.draft.shipped import questions
from bench.errors import EnvironmentFault
from bench.machine import environment
from bench.sweep.expand import MachineFacts

A100 = ("--model", "gpt2-124m", "--global-batch-size", "512", "--gpu", "a100-80gb", "--gpus", "8")

WRITTEN = """\
# yaml-language-server: $schema=./schema.json
# Question: for gpt2-124m at a global batch of 512 sequences, which micro-batch, AMP mode and number of GPUs is
# fastest on 8 x a100-80gb, and what memory does it take?
#
# Written by: bench init --model gpt2-124m --data 'data/*.txt' --global-batch-size 512 --gpu a100-80gb --gpus 8
# Change what you like: `bench plan` shows what would run, and names each mistake with its line.
format: 1
name: gpt2-124m-a100-80gb                   # results go to results/gpt2-124m-a100-80gb/
base:                                       # every trial starts from these
  device: cuda
  model: {preset: gpt2-124m}                # GPT-2 small: 124 M parameters
  data: {text: "data/*.txt", rows: packed}  # each byte is a token; packed: no padding
  seq_len: 1024                             # tokens of a sequence, at most 1,024 here; take that of your run
  global_batch_size: 512                    # sequences per update, all ranks; accumulation steps follow
  optimizer: {name: adamw, lr: 3.0e-4}      # lr moves the loss, not the speed
axes:                                       # every combination is a trial: take out what you would not use
  # How much does each further GPU bring? The update stays the same: accumulation steps become fewer.
  world_size: [1, 2, 4, 8]
  # How much does lower precision bring? fp32 is the reference; tf32 rounds the factors of products; bf16 is autocast;
  # fp16 is autocast with a gradient scaler.
  amp_mode: [fp32, tf32, bf16, fp16]
  # Which is the largest that fits? A few launches find it among the sizes that divide. Or list: [1, 2, 4].
  micro_batch_size: {max: 512}
  # Does computing each block twice, to keep less of it, pay off by a larger micro-batch? Twice the trials:
  # activation_checkpointing: [false, true]
# A launch goes on until its mean speed is known to 2 % or its time is up; rounds tell how far launches of one trial
# differ. To settle what is close, take preset normal (0.5 %) and more rounds.
measure: {preset: quick, rounds: 3}
"""

SAID = """\
wrote gpt2-124m-a100-80gb.yaml, and beside it schema.json, from which editors know the keys
next, the last two on the machine with the GPUs:
  bench plan gpt2-124m-a100-80gb.yaml --gpus 8   shows what would run
  bench check gpt2-124m-a100-80gb.yaml           proves that accumulation makes the same update
  bench sweep gpt2-124m-a100-80gb.yaml           measures
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, on a machine without a GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment, "machine_facts", lambda asked: MachineFacts("cpu", 0))
    return tmp_path


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_new_file_explains_itself(folder: Path) -> None:
    """The complete text: it is documentation."""
    (folder / "data").mkdir()
    (folder / "data" / "a.txt").write_text("words " * 200, encoding="utf-8")
    result = bench("init", *A100[:2], "--data", "data/*.txt", *A100[2:])
    assert (result.exit_code, result.stdout, result.stderr) == (0, SAID, "")
    assert (folder / "gpt2-124m-a100-80gb.yaml").read_text(encoding="utf-8") == WRITTEN


@pytest.mark.parametrize("arguments", [A100, ("quickstart",), ("a100-llama-1b", "--out", "my sweeps/the first.yaml")])
def test_plan_that_it_prints_works_and_skips_nothing_of_its_own(arguments: tuple[str, ...]) -> None:
    """Pasted as it stands, also where the path has spaces; rules of a shipped sweep are its own."""
    written = bench("init", *arguments)
    (line,) = [line for line in written.stdout.splitlines() if line.endswith("   shows what would run")]
    result = bench(*shlex.split(line.removesuffix("shows what would run"))[1:])
    assert (result.exit_code, result.stderr) == (0, "")
    assert arguments[0] == "a100-llama-1b" or " 0 skipped" in result.stdout


def test_command_in_the_file_writes_it_again(folder: Path) -> None:
    """What the head says made it, does."""
    bench("init", *A100, "--seq-len", "512", "--name", "mine")
    first = (folder / "mine.yaml").read_text(encoding="utf-8")
    (line,) = [line for line in first.splitlines() if line.startswith("# Written by: ")]
    (folder / "mine.yaml").unlink()
    assert bench(*shlex.split(line.removeprefix("# Written by: bench "))).exit_code == 0
    assert (folder / "mine.yaml").read_text(encoding="utf-8") == first


def test_without_arguments_it_lists_what_is_shipped(folder: Path) -> None:
    """Each with the question that it asks; nothing is written."""
    result = bench("init")
    assert (result.exit_code, result.stderr) == (0, "")
    words = " ".join(result.stdout.split())
    assert all(f"{name} {question}" in words for name, question in questions().items())
    assert "bench init --model NAME" in words
    assert names(folder) == []


def test_shipped_sweep_names_itself_where_it_lands(folder: Path) -> None:
    assert bench("init", "quickstart").exit_code == 0
    assert names(folder) == ["quickstart.yaml", "schema.json"]
    text = (folder / "quickstart.yaml").read_text(encoding="utf-8")
    assert "Run it with: bench sweep quickstart.yaml\n" in text
    assert "sweeps/" not in text


def test_note_about_gpus_that_stay_idle_goes_to_stderr() -> None:
    result = bench("init", *A100[:3], "500", *A100[4:])
    assert result.exit_code == 0
    assert result.stderr.startswith("note: A global batch of 500 is no multiple of 8")
    assert "note" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "gpt2-124", "--global-batch-size", "8"], "Did you mean gpt2-124m?"),
        (["--model", "gpt2-124m"], "--global-batch-size is missing."),
        (["--global-batch-size", "8"], "--model is missing."),
        ([*A100, "--data", "none/*.txt"], "--data = none/*.txt matches no file"),
        ([*A100, "--name", "a/b"], "--name = a/b cannot be a folder's name"),
        ([*A100, "--device", "cpu"], "--device cpu takes no GPU"),
        ([*A100, "--gpus", "0"], "0 is not in the range"),
        ([*A100, "--gpu", "a100"], "Did you mean a100-80gb?"),
        ([*A100, "--out", "a\nb.yaml"], "--out = 'a\\nb.yaml' holds characters that do not print"),
        (["quickstar"], "Did you mean quickstart?"),
        (["quickstart", "--gpus", "8"], "which is written as it is: --gpus cannot change it"),
        ([*A100, "--data", "a.txt", "b.txt"], "a glob for --data needs quotes"),
        (["--out", "x.yaml"], "nothing to write is named"),
    ],
)
def test_bad_input_writes_nothing_and_says_what_to_do(folder: Path, arguments: list[str], words: str) -> None:
    result = bench("init", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert names(folder) == []


def test_file_that_exists_is_refused_by_name(folder: Path) -> None:
    (folder / "quickstart.yaml").write_text("mine", encoding="utf-8")
    result = bench("init", "quickstart")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "Error: quickstart.yaml is there already, and nothing is overwritten. "
        "Name another, such as --out quickstart-2.yaml.\n"
    )
    assert (folder / "quickstart.yaml").read_text(encoding="utf-8") == "mine"


def test_file_that_cannot_be_written_is_exit_code_4() -> None:
    assert bench("init", "quickstart", "--out", "/sys/quickstart.yaml").exit_code == 4


def test_gpu_that_cannot_be_used_is_exit_code_5(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(asked: set[str]) -> MachineFacts:
        raise EnvironmentFault("torch cannot use it.")

    monkeypatch.setattr(environment, "machine_facts", fail)
    result = bench("init", "--model", "gpt2-tiny", "--global-batch-size", "8")
    assert (result.exit_code, names(folder)) == (5, [])
    assert "--gpu a100-80gb --gpus 8" in result.stderr
