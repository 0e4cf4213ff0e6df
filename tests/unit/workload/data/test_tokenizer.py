"""Ids from a tokenizer.json are the library's own, and nothing is cut, filled up or added unasked."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

from bench.errors import BenchError
from bench.workload.data.corpus import Corpus, faults, load_corpus

WORDS = ["<unk>", "a", "b", "c", "<|endoftext|>", "[CLS]"]


def make(path: Path, ends: tuple[str, ...] = ("<|endoftext|>",)) -> Tokenizer:
    """Write a tokenizer of a few words, which on its own cuts at 2 ids, fills up to 8 and puts [CLS] in front."""
    vocabulary = {word: number for number, word in enumerate([*WORDS, *(end for end in ends if end not in WORDS)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    tokenizer.add_special_tokens([AddedToken(end, special=True) for end in (*ends, "[CLS]")])
    tokenizer.post_processor = processors.TemplateProcessing(  # type: ignore[assignment]
        single="[CLS] $A", special_tokens=[("[CLS]", vocabulary["[CLS]"])]
    )
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(path))
    return tokenizer


def documents(corpus: Corpus) -> list[list[int]]:
    return [corpus.tokens[start:stop].tolist() for start, stop in pairwise(corpus.offsets)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make(tmp_path / "tokenizer.json")
    (tmp_path / "a.jsonl").write_text('{"text": "a b c a"}\n{"text": "b zebra"}\n')
    (tmp_path / "p.jsonl").write_text('{"prompt": "a b", "completion": "c"}\n')
    (tmp_path / "a.txt").write_text("c b a")
    return tmp_path


def test_whole_texts_are_encoded_and_ended(folder: Path) -> None:
    """The file's own truncation, padding and template are for a model's input, not for a corpus."""
    named = {"tokenizer": str(folder / "tokenizer.json")}
    assert documents(load_corpus({"jsonl": str(folder / "a.jsonl"), **named})) == [[1, 2, 3, 1, 4], [2, 0, 4]]
    assert documents(load_corpus({"text": str(folder / "a.txt"), **named})) == [[3, 2, 1, 4]]
    prompts = load_corpus({"jsonl": str(folder / "p.jsonl"), **named})
    assert documents(prompts) == [[1, 2, 3, 4]]
    assert prompts.is_prompt is not None
    assert prompts.is_prompt.tolist() == [True, True, False, False]
    assert prompts.vocab_size == 5


def test_end_of_text_may_be_given(folder: Path) -> None:
    """It takes the place of the known one; an id that is none is refused with what there is."""
    named = {"jsonl": str(folder / "a.jsonl"), "tokenizer": str(folder / "tokenizer.json")}
    assert documents(load_corpus({**named, "end_of_text": 5}))[1] == [2, 0, 5]
    (said,) = faults({**named, "end_of_text": 99})
    assert "data.end_of_text = 99 is no id of tokenizer.json, which has 6." in said
    assert "Its special tokens: <|endoftext|> (4), [CLS] (5)." in said


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((), "has no token known to end a text. Add end_of_text, the id that ends each document"),
        (("</s>", "<eos>"), r"has several tokens that may end a text \(</s>, <eos>\)"),
    ],
)
def test_doubtful_end_of_text_is_asked_for(tmp_path: Path, ends: tuple[str, ...], said: str) -> None:
    """A guess would train on another end than the model's."""
    WORDS.remove("<|endoftext|>")
    try:
        make(tmp_path / "tokenizer.json", ends)
    finally:
        WORDS.insert(4, "<|endoftext|>")
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(BenchError, match=said):
        load_corpus({"text": str(tmp_path / "a.txt"), "tokenizer": str(tmp_path / "tokenizer.json")})


def test_changed_tokenizer_gives_other_data(folder: Path) -> None:
    """It is told by its content: the same bytes elsewhere need no new entry, others do."""
    data: dict[str, Any] = {"jsonl": str(folder / "a.jsonl"), "tokenizer": str(folder / "tokenizer.json")}
    first = load_corpus(data).content_hash
    text = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(text.replace('"a": 1', '"a": 2').replace('"b": 2', '"b": 1'))
    assert load_corpus(data).content_hash != first
    (folder / "tokenizer.json").write_text(text)
    assert load_corpus(data).content_hash == first


def test_cached_corpus_needs_no_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks open what the driver made; only making it takes the library, and without it the words say how to get it."""
    data = {"jsonl": str(folder / "a.jsonl"), "tokenizer": str(folder / "tokenizer.json")}
    first = load_corpus(data)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert load_corpus(data).content_hash == first.content_hash
    (folder / "a.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(BenchError, match=r"needs the tokenizers library: pip install 'accumbench\[hf\]'"):
        load_corpus(data)


def test_bad_tokenizer_is_named(folder: Path) -> None:
    """A folder, a missing file, another kind of file, text that is not UTF-8."""
    data = {"text": str(folder / "a.txt")}
    (said,) = faults({**data, "tokenizer": str(folder)})
    assert "is a folder. Name the file in it:" in said
    (said,) = faults({**data, "tokenizer": str(folder / "none.json")})
    assert "is not there: no file" in said
    (folder / "bad.json").write_text("{}")
    (said,) = faults({**data, "tokenizer": str(folder / "bad.json")})
    assert "cannot be read as a tokenizer.json" in said
    (folder / "a.txt").write_bytes(b"ab\xff")
    with pytest.raises(BenchError, match=r"byte 3 of .*a.txt is not UTF-8, which a tokenizer needs"):
        load_corpus({**data, "tokenizer": str(folder / "tokenizer.json")})
