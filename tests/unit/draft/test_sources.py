"""What --model and --data may name is told apart, looked for at once, and otherwise refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.draft.sources import data_source, model_source
from bench.errors import BenchError
from tests.hf_configs import LLAMA


@pytest.mark.parametrize("text", ["config.json", "meta-llama/Llama-3.2-1B", "./m"])
def test_configuration_that_is_not_there_is_refused_in_words(text: str) -> None:
    """The name of a hub is looked for as a file: nothing is downloaded."""
    with pytest.raises(BenchError, match=r"--model = .*: there is no such file from .*nothing is downloaded"):
        model_source(text)


def test_file_of_code_is_no_model() -> None:
    with pytest.raises(BenchError, match=r"model.py is a file. Name the function in it"):
        model_source("model.py")


def test_configuration_is_told_by_its_file_or_folder(tmp_path: Path) -> None:
    """What it says of itself is known to who writes the sweep."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    for text in (str(tmp_path), str(tmp_path / "config.json")):
        source = model_source(text)
        assert source.section == {"hf": text}
        assert (source.name, source.longest, source.vocab_size) == ("llama", 64, 257)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(BenchError, match="has no model_type"):
        model_source(str(tmp_path))


def test_function_that_builds_a_model_is_told_by_its_colon() -> None:
    assert model_source("mypkg.models:build").section == {"factory": "mypkg.models:build"}
    assert model_source("mypkg.models:build").flow == '{factory: "mypkg.models:build"}'


def test_words_name_the_data_that_every_machine_has() -> None:
    assert data_source("stdlib").flow == "{corpus: stdlib, rows: packed}"
    assert data_source("synthetic").flow == "{synthetic: {mean_tokens: 256}, rows: packed}"


def test_files_are_told_by_their_suffix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.bin").write_bytes(b"\1\0" * 8)
    Path("a.txt").write_text("words", encoding="utf-8")
    np.save("a.npy", np.arange(300, dtype=np.int32))
    assert data_source("a.npy").section == {"tokens": "a.npy", "rows": "packed"}
    assert (data_source("a.npy").tokens, data_source("a.npy").vocab_size) == (300, 300)
    assert data_source("train.bin").section == {"tokens": "train.bin", "rows": "packed"}
    assert data_source("*.txt").section == {"text": "*.txt", "rows": "packed"}
    assert data_source("*.txt").flow == '{text: "*.txt", rows: packed}'


def test_rows_are_looked_at_and_prompts_known_by_their_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts come padded, as from a trainer; texts packed."""
    monkeypatch.chdir(tmp_path)
    Path("train.jsonl").write_text('{"text": "a"}\n')
    pq.write_table(pa.table({"prompt": ["a"], "completion": ["b"]}), "qa.parquet")
    assert data_source("train.jsonl").flow == '{jsonl: "train.jsonl", rows: packed}'
    assert "each byte of text is a token" in data_source("train.jsonl").comment
    assert data_source("*.parquet").section == {"parquet": "*.parquet", "rows": "ragged"}
    assert "not predicted" in data_source("*.parquet").comment


def test_rows_without_a_usual_column_are_answered_with_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text('{"body": "a"}\n')
    with pytest.raises(BenchError, match=r"^--data: a.jsonl:1 has no column text.*Name yours: text_column.*in a sweep"):
        data_source("a.jsonl")


@pytest.mark.parametrize("suffix", ["csv", "JSON", "npz", "gz"])
def test_files_of_other_kinds_are_refused_before_they_are_looked_for(suffix: str) -> None:
    """Read as bytes they would be measured, and mean nothing."""
    with pytest.raises(BenchError, match=f"this version does not read .{suffix.lower()} files"):
        data_source(f"train.{suffix}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("none/*.txt", r"^--data = none/\*.txt matches no file, seen from .*Check the glob"),
        ("empty.txt", "^--data = empty.txt matches only empty files"),
        ("none.bin", "^--data = none.bin: there is no file"),
        ("none.jsonl", "^--data = none.jsonl matches no file"),
        ("odd.bin", "^--data = odd.bin has 3 bytes, not a whole number"),
    ],
)
def test_missing_or_unusable_files_are_named_by_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").touch()
    Path("odd.bin").write_bytes(b"123")
    with pytest.raises(BenchError, match=words):
        data_source(text)
