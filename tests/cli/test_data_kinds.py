"""The user's own data through the commands: bad files are named before anything runs, good ones are measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from tokenizers import Tokenizer, models, pre_tokenizers

from bench.cli import main

SWEEP = """# Question: which micro-batch?
format: 1
name: kinds
base:
  device: cpu
  model: {preset: gpt2-nano}
  data: {DATA}
  seq_len: 16
  global_batch_size: 4
axes:
  micro_batch_size: [1, 4]
measure: {warmup_updates: 0, updates: 1, quality_updates: 0}
"""
ROWS = [{"prompt": "ab" * (number % 5), "completion": "c" * (1 + number % 4), "n": number} for number in range(40)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a current folder with good files of each kind, and some bad ones."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("qa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    pd.DataFrame({"ids": [[1, 2, 3, number] for number in range(40)]}).to_parquet("ids.parquet")
    np.arange(500, dtype="uint32").tofile("wide.bin")
    (np.arange(500) % 200).astype("uint32").tofile("small.bin")
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "ab": 1, "c": 2, "</s>": 3}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    tokenizer.save("tokenizer.json")
    Path("late.jsonl").write_text('{"text": "a"}\n{"text": 7}\n')
    Path("bad.json").write_text("{}")
    return tmp_path


def invoke(command: str, data: str, **options: Any) -> Result:
    Path("kinds.yaml").write_text(SWEEP.replace("DATA", data), encoding="utf-8")
    return CliRunner().invoke(main, [command, "kinds.yaml", *options.get("more", [])])


@pytest.mark.parametrize("command", ["plan", "sweep"])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("jsonl: none.jsonl", "data.jsonl = none.jsonl matches no file, seen from"),
        (
            "jsonl: qa.jsonl, text_column: body",
            "data.text_column = body is no column of qa.jsonl:1, which has prompt, ",
        ),
        ("parquet: ids.parquet", "ids.parquet has no column text, nor prompt and completion; it has ids. Name yours:"),
        ("parquet: qa.jsonl", "qa.jsonl cannot be read as parquet:"),
        ("jsonl: ids.parquet", "ids.parquet is a parquet file: name it by data.parquet."),
        ("jsonl: qa.jsonl, tokenizer: bad.json", "data.tokenizer = "),
        ("jsonl: qa.jsonl, tokenizer: none.json", "data.tokenizer = none.json is not there: no file"),
        ("tokens: wide.bin", "data.tokens = wide.bin holds uint32 ids, it seems: read as uint16, every second value"),
    ],
)
def test_bad_data_are_named_with_the_line_before_anything_runs(
    folder: Path, command: str, data: str, said: str
) -> None:
    """Exit 2, one fault each; no results folder is made."""
    result = invoke(command, data)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: kinds.yaml:7: {said}"), result.stderr
    assert not Path("results").exists()


def test_two_mistakes_are_two_lines(folder: Path) -> None:
    """A tokenizer and a file that are both missing are told together."""
    result = invoke("plan", "jsonl: none.jsonl, tokenizer: none.json")
    assert result.exit_code == 2
    assert [line.split(" ")[1] for line in result.stderr.splitlines()[1:]] == ["data.tokenizer", "data.jsonl"]


def test_row_that_is_bad_further_on_stops_the_sweep_before_its_first_launch(folder: Path) -> None:
    """It is found when the rows are read, once, and not by launch after launch."""
    result = invoke("sweep", "jsonl: late.jsonl")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "late.jsonl:2: text is a number, not text. Give every row one, or leave the row out." in result.stderr
    assert not list(Path().rglob("results.parquet"))


def test_flags_are_named_as_flags(folder: Path) -> None:
    """`bench run` has no file with lines."""
    sizes = ["--global-batch-size", "4", "--model", "gpt2-nano"]
    result = CliRunner().invoke(main, ["run", "--jsonl", "qa.jsonl", "--text-column", "body", *sizes])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: --text-column = body is no column of qa.jsonl:1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "valid_tokens", "source"),
    [
        ("jsonl: qa.jsonl, rows: ragged", None, "jsonl: qa.jsonl"),
        ("jsonl: qa.jsonl, tokenizer: tokenizer.json, rows: padded", None, "jsonl: qa.jsonl"),
        ("parquet: ids.parquet, token_column: ids, rows: padded", 4 * 3, "parquet: ids.parquet"),
        ("tokens: small.bin, token_dtype: uint32", 4 * 16, "tokens: small.bin"),
    ],
)
def test_every_kind_of_data_is_measured(folder: Path, data: str, valid_tokens: int | None, source: str) -> None:
    """Both cuts make the same update of the same data; the row says what was read."""
    result = invoke("sweep", data)
    assert result.exit_code == 0, result.stderr
    rows = pd.read_parquet("results/kinds/results.parquet")
    assert rows["outcome"].tolist() == ["ok", "ok"]
    assert rows["valid_tokens"].nunique() == rows["sequence_tokens_p50"].nunique() == 1
    assert valid_tokens is None or rows["valid_tokens"].tolist() == [valid_tokens] * 2
    assert rows["data_source"].tolist() == [source] * 2
    assert (rows["padding_share"] == rows["padding_slots"] / rows["token_slots"]).all()
    updates = pd.read_parquet("results/kinds/updates.parquet").groupby("update")["train_loss"]
    assert ((updates.max() - updates.min()) / updates.mean()).max() < 1e-5
