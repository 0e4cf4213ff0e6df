"""The examples of docs/data.md are what the page says of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from bench.sweep.check import check_one_trial
from bench.sweep.fields import DATA_SOURCES
from bench.workload.data.corpus import load_corpus
from bench.workload.data.sequences import SequenceSource

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^data: .*$", PAGE, flags=re.MULTILINE)
ROWS = [json.loads(line) for line in re.findall(r'^\{".*\}$', PAGE, flags=re.MULTILINE)]


@pytest.mark.parametrize("line", EXAMPLES)
def test_every_line_is_a_section_that_a_sweep_takes(line: str) -> None:
    """Keys, values and what goes together."""
    base = {**YAML(typ="safe", pure=True).load(line), "global_batch_size": 4}
    spec, faults = check_one_trial({"format": 1, "name": "s", "axes": {}, "base": base})
    assert not faults
    assert spec is not None


def test_every_source_has_an_example() -> None:
    """None is forgotten."""
    told = {source for line in EXAMPLES for source in DATA_SOURCES if f"{{{source}:" in line}
    assert told == set(DATA_SOURCES)


def counts(row: dict[str, Any], folder: Path, **data: Any) -> tuple[int, int, int]:
    """Give the tokens, the token slots and the valid targets of one row as a sequence of its own."""
    (folder / "a.jsonl").write_text(json.dumps(row))
    corpus = load_corpus({"jsonl": str(folder / "a.jsonl"), **data})
    (sequence,) = SequenceSource(corpus, "ragged", 64, 0).window(0, 1)
    return corpus.tokens.size, sequence.size - 1, int((sequence[1:] >= 0).sum())


def test_rows_of_the_page_have_the_tokens_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """13 tokens of text; 10 of a prompt and its completion, 9 slots, 3 valid targets."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text, prompt = ROWS
    assert "gives 13 tokens: 12 bytes" in PAGE
    assert counts(text, tmp_path, text_column="body")[0] == 13
    assert "gives 10 tokens, 7 of the prompt, 2 of the completion and the end" in PAGE
    assert "feeds 9 token slots, of which 3 have a valid target" in PAGE
    assert counts(prompt, tmp_path) == (10, 9, 3)
