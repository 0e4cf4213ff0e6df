"""The header of a journal holds the content of every corpus, by a name that tells them apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.drive.folder import check_header, make_header
from bench.errors import BenchError
from bench.sweep.expand import MachineFacts
from bench.sweep.fields import TrialConfig
from bench.sweep.flags import sweep_from_flags


def header(*data: dict[str, Any]) -> dict[str, Any]:
    configs = [TrialConfig.model_validate({"data": one, "global_batch_size": 4}) for one in data]
    return make_header(sweep_from_flags({"global_batch_size": 4}, {}, "s"), configs, MachineFacts("cpu", 0))


def test_columns_and_tokenizers_make_corpora_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file read in two ways is two corpora; how rows are cut is none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text(json.dumps({"text": "ab", "body": "abc"}))
    one = {"jsonl": "a.jsonl"}
    both = header(one, {**one, "text_column": "body"}, {**one, "rows": "ragged"})["corpora"]
    assert list(both) == ["jsonl: a.jsonl", "jsonl: a.jsonl, text_column: body"]
    assert len(set(both.values())) == 2


def test_changed_rows_are_refused_at_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where only what is a prompt has changed, and every token is the same."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text(json.dumps({"prompt": "ab", "completion": "cd"}))
    before = header({"jsonl": "a.jsonl"})
    check_header(before, header({"jsonl": "a.jsonl"}), tmp_path)
    Path("a.jsonl").write_text(json.dumps({"prompt": "a", "completion": "bcd"}))
    with pytest.raises(BenchError, match=r"content of jsonl: a\.jsonl was \w+ and is now"):
        check_header(before, header({"jsonl": "a.jsonl"}), tmp_path)
