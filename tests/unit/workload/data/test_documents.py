"""Rows of JSON Lines and parquet become documents; a bad row is named with its file, its number and the way out."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from bench.errors import BenchError
from bench.workload.data.corpus import Corpus, faults, load_corpus

END = 256
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def documents(corpus: Corpus) -> list[list[int]]:
    return [corpus.tokens[start:stop].tolist() for start, stop in pairwise(corpus.offsets)]


def write(path: Path, rows: list[Any]) -> str:
    """Write rows as JSON Lines or as parquet, by the suffix; give the kind."""
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=3)
        return "parquet"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return "jsonl"


def load(path: Path, rows: list[Any], **data: Any) -> Corpus:
    return load_corpus({write(path, rows): str(path), **data})


both = pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])


@both
@settings(max_examples=40)
@given(rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=12))
def test_prompts_and_completions_come_out_as_they_went_in(name: str, rows: list[tuple[str, str]]) -> None:
    """Bytes of both, an end mark after each completion, and a mask over exactly the prompts."""
    kept = [(prompt.encode(), completion.encode()) for prompt, completion in rows if prompt or completion]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        values = [{"id": 1, "prompt": prompt, "completion": completion} for prompt, completion in rows]
        if not kept:
            with pytest.raises(BenchError, match="holds only empty documents"):
                load(path, values)
            return
        corpus = load(path, values)
        assert documents(corpus) == [[*prompt, *completion, END] for prompt, completion in kept]
        assert corpus.is_prompt is not None
        expected = [[True] * len(one) + [False] * (len(two) + 1) for one, two in kept]
        assert corpus.is_prompt.tolist() == [flag for flags in expected for flag in flags]
        assert corpus.vocab_size == 257


@both
@settings(max_examples=40)
@given(rows=st.lists(st.lists(st.integers(0, 200_000), max_size=6), min_size=1, max_size=12))
def test_lists_of_ids_come_out_as_they_went_in(name: str, rows: list[list[int]]) -> None:
    """No end mark is added, no token is masked; empty rows are left out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        if not any(rows):
            return
        corpus = load(path, [{"ids": row} for row in rows], token_column="ids")
        assert documents(corpus) == [row for row in rows if row]
        assert corpus.is_prompt is None
        assert corpus.vocab_size == max(map(max, filter(None, rows))) + 1


@both
def test_text_column_is_found_by_its_usual_name_or_named(tmp_path: Path, name: str) -> None:
    """What else a row holds is not looked at."""
    rows = [{"text": "a", "body": "b", "n": [1]}, {"text": "c", "body": "d", "n": []}]
    assert documents(load(tmp_path / name, rows)) == [[97, END], [99, END]]
    assert documents(load(tmp_path / name, rows, text_column="body")) == [[98, END], [100, END]]


@both
def test_other_names_of_prompt_and_completion(tmp_path: Path, name: str) -> None:
    """Either may be named alone; the other keeps its usual name."""
    rows = [{"question": "a", "answer": "b", "prompt": "c", "completion": "d"}]
    for given_names, expected in [
        ({"prompt_column": "question", "completion_column": "answer"}, b"ab"),
        ({"prompt_column": "question"}, b"ad"),
        ({"completion_column": "answer"}, b"cb"),
    ]:
        assert documents(load(tmp_path / name, rows, **given_names)) == [[*expected, END]]


def test_files_of_a_glob_are_read_in_the_order_of_their_paths(tmp_path: Path) -> None:
    """Blank lines, a byte order mark and empty files are no rows."""
    (tmp_path / "b.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "x"}\n\n  \n{"text": "y"}')
    (tmp_path / "a.jsonl").write_text('{"text": "w"}\r\n')
    (tmp_path / "c.jsonl").touch()
    assert documents(load_corpus({"jsonl": f"{tmp_path}/*.jsonl"})) == [[119, END], [120, END], [121, END]]


def test_more_rows_than_are_encoded_together(tmp_path: Path) -> None:
    """Order and number stay."""
    corpus = load(tmp_path / "a.jsonl", [{"text": str(number)} for number in range(2500)])
    assert [bytes(one[:-1]).decode() for one in documents(corpus)] == list(map(str, range(2500)))


def test_columns_of_arrow_that_hold_the_same_values(tmp_path: Path) -> None:
    """Large, dictionary and fixed-size types are read like the plain ones."""
    table = pa.table(
        {
            "text": pa.array(["a", "b"]).dictionary_encode(),
            "large": pa.array(["c", "d"], pa.large_string()),
            "ids": pa.array([[1, 2], [3, 4]], pa.list_(pa.uint16(), 2)),
            "wide": pa.array([[5], [6]], pa.large_list(pa.int64())),
        }
    )
    path = tmp_path / "t.parquet"
    parquet.write_table(table, path)
    for column, expected in [("text", [[97, END], [98, END]]), ("large", [[99, END], [100, END]])]:
        assert documents(load_corpus({"parquet": str(path), "text_column": column})) == expected
    for column, expected in [("ids", [[1, 2], [3, 4]]), ("wide", [[5], [6]])]:
        assert documents(load_corpus({"parquet": str(path), "token_column": column})) == expected


def test_other_columns_are_another_corpus(tmp_path: Path) -> None:
    """The cache tells them apart, and the mask is part of the hash."""
    path, rows = tmp_path / "a.jsonl", [{"prompt": "a", "completion": "b", "text": "ab"}]
    write(path, rows)
    hashes = [
        load_corpus({"jsonl": str(path), **columns}).content_hash
        for columns in ({"text_column": "text"}, {"prompt_column": "prompt"}, {"text_column": "prompt"})
    ]
    assert len(set(hashes)) == 3


BAD: list[tuple[str, bytes, dict[str, str], str]] = [
    ("not JSON", b'{"text": "a"}\n{"text": \n', {}, r"a.jsonl:2 is no JSON \(.*\)\. In JSON Lines each line is one"),
    ("spread", b'{\n "text": "a"\n}', {}, r"a.jsonl:1 is one JSON text spread over lines"),
    ("list", b'[{"text": "a"}]\n', {}, r"a.jsonl:1 is one list of all rows, not an object. Write one object a line"),
    ("number", b'{"text": "a"}\n7\n', {}, r"a.jsonl:2 is a number, not an object"),
    ("encoding", b'{"text": "\xff"}\n', {}, r"a.jsonl:1: byte 11 of the line is not UTF-8"),
    ("deep", b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", {}, r"a.jsonl:1: lists or objects are nested"),
    ("gzip", gzip.compress(b'{"text": "a"}'), {}, r"a.jsonl is compressed by gzip: unpack it with gunzip"),
    ("parquet", b"PAR1....PAR1", {}, r"a.jsonl is a parquet file: name it by data.parquet"),
    ("blank", b" \n\n", {}, r"data.jsonl = .* has no row"),
    ("no column", b'{"a": 1, "b": 2}\n', {}, r"a.jsonl:1 has no column text, nor prompt and completion; it has a, b\."),
    (
        "named",
        b'{"a": 1}\n',
        {"text_column": "body"},
        r"data.text_column = body is no column of .*a.jsonl:1, which has a",
    ),
    (
        "half",
        b'{"question": "q"}\n',
        {"prompt_column": "question"},
        r"data.completion_column = completion is no column of .*, which has question",
    ),
    ("both", b'{"text": "a", "prompt": "", "completion": ""}', {}, r"text beside prompt and completion. Say which"),
    ("later", b'{"text": "a"}\n{"txt": "b"}\n', {}, r"data.text_column = text is no column of .*:2, which has txt"),
    ("null", b'{"text": "a"}\n{"text": null}\n', {}, r"a.jsonl:2: text is null, not text. Give every row one"),
    ("type", b'{"text": 7}\n', {}, r"a.jsonl:1: text is a number, not text"),
    ("ids", b'{"text": [7, 8]}\n', {}, r"text is a list of numbers, not text. Use token_column: text"),
    ("surrogate", b'{"text": "\\ud800"}\n', {}, r"a.jsonl:1: text holds half a character \(\\ud800\)"),
    ("words", b'{"i": "a"}\n', {"token_column": "i"}, r":1: i is text, not a list of token ids. Use text_column: i"),
    ("float", b'{"i": [1, 2.5]}\n', {"token_column": "i"}, r":1: i\[1\] is a number, not a token id"),
    ("bool", b'{"i": [true]}\n', {"token_column": "i"}, r":1: i\[0\] is true or false, not a token id"),
    ("mask", b'{"i": [1, -100]}\n', {"token_column": "i"}, r":1: i holds -100, which is no token id"),
    ("huge", b'{"i": [4294967296]}\n', {"token_column": "i"}, r":1: i holds 4294967296, which is no token id"),
    ("empty", b'{"text": ""}\n', {}, r"data.jsonl = .* holds only empty documents"),
]


@pytest.mark.parametrize(("content", "data", "said"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_rows_are_named(tmp_path: Path, content: bytes, data: dict[str, str], said: str) -> None:
    """File, row, value and what to do; nothing is kept in the cache."""
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(BenchError, match=said):
        load_corpus({"jsonl": str(tmp_path / "a.jsonl"), **data})


def _null_id(folder: Path) -> Any:
    parquet.write_table(pa.table({"ids": [[1, None]]}), folder / "a.parquet")


def _null_text(folder: Path) -> Any:
    parquet.write_table(pa.table({"ids": [[1], [2]], "text": ["a", None]}), folder / "a.parquet")


def _negative(folder: Path) -> Any:
    parquet.write_table(pa.table({"ids": [[1], [3, -100]]}), folder / "a.parquet")


def _no_parquet(folder: Path) -> Any:
    (folder / "a.parquet").write_text('{"text": "a"}')


def _cut(folder: Path) -> Any:
    _null_text(folder)
    content = (folder / "a.parquet").read_bytes()
    (folder / "a.parquet").write_bytes(content[:4] + b"\xff" * 60 + content[64:])


@pytest.mark.parametrize(
    ("make", "column", "said"),
    [
        (_null_id, "token_column", r"a.parquet, row 1: ids\[1\] is null, not a token id"),
        (_null_text, "text_column", r"a.parquet, row 2: text is null, not text"),
        (_negative, "token_column", r"a.parquet, row 2: ids holds -100, which is no token id"),
        (_no_parquet, "text_column", r"a.parquet cannot be read as parquet: .*Copy or write it again"),
        (_cut, "token_column", r"a.parquet cannot be read as parquet: "),
    ],
)
def test_bad_parquet_is_named(tmp_path: Path, make: Callable[[Path], Any], column: str, said: str) -> None:
    """Damage is found where it lies: in the foot of the file at once, in a page when it is read."""
    make(tmp_path)
    name = {"token_column": "ids", "text_column": "text"}[column]
    with pytest.raises(BenchError, match=said):
        load_corpus({"parquet": str(tmp_path / "a.parquet"), column: name})


def test_beginnings_are_looked_at_without_reading_on(tmp_path: Path) -> None:
    """The first row of each file, so that no launch need start; a fault further on is found when all is read."""
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a"}\nnonsense\n')
    (tmp_path / "b.jsonl").write_bytes(b'{"body": "a"}\n')
    assert list(faults({"jsonl": f"{tmp_path}/a.jsonl"})) == []
    (said,) = faults({"jsonl": f"{tmp_path}/*.jsonl"})
    assert "data.text_column = text is no column of" in said
    two = list(faults({"jsonl": f"{tmp_path}/none.jsonl", "tokenizer": f"{tmp_path}/none.json"}))
    assert [text.split(" ")[0] for text in two] == ["data.tokenizer", "data.jsonl"]


def test_token_array_is_kept_small(tmp_path: Path) -> None:
    """Ids below 65,536 take two bytes each on disk."""
    assert load(tmp_path / "a.jsonl", [{"ids": [1, 65_535]}], token_column="ids").tokens.dtype == np.uint16
    assert load(tmp_path / "b.jsonl", [{"ids": [1, 65_536]}], token_column="ids").tokens.dtype == np.uint32
