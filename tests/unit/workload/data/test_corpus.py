"""Every source becomes tokens with borders, and a bad one says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bench.errors import BenchError
from bench.sweep.fields import DataSpec, SyntheticSpec
from bench.workload.data.corpus import Corpus, load_corpus


def documents(corpus: Corpus) -> list[list[int]]:
    return [corpus.tokens[start:stop].tolist() for start, stop in pairwise(corpus.offsets)]


def test_one_text_file_is_one_document_of_bytes_with_an_end_mark(tmp_path: Path) -> None:
    """Files come in the order of their paths, in any encoding; empty ones are left out."""
    (tmp_path / "b.txt").write_bytes(b"\xff\x00z")
    (tmp_path / "a.txt").write_text("hi")
    (tmp_path / "empty.txt").touch()
    corpus = load_corpus({"text": f"{tmp_path}/*.txt"})
    assert documents(corpus) == [[104, 105, 256], [255, 0, 122, 256]]
    assert corpus.vocab_size == 257
    assert corpus.has_document_borders


def test_text_glob_reaches_any_depth(tmp_path: Path) -> None:
    """`**` is understood."""
    (tmp_path / "x" / "y").mkdir(parents=True)
    (tmp_path / "x" / "y" / "deep.md").write_text("q")
    assert documents(load_corpus({"text": f"{tmp_path}/**/*.md"})) == [[113, 256]]


def test_changed_text_is_read_again(tmp_path: Path) -> None:
    """The cache follows the state of the source, and equal content has an equal hash."""
    file = tmp_path / "a.txt"
    file.write_text("one")
    first = load_corpus({"text": str(file)}).content_hash
    file.write_text("three")
    assert load_corpus({"text": str(file)}).content_hash != first
    file.write_text("seven")
    os.utime(file, ns=(0, 0))  # as long as before: only the time of change tells
    assert documents(load_corpus({"text": str(file)})) == [[*b"seven", 256]]
    copy = tmp_path / "copy.txt"
    copy.write_text("one")
    assert load_corpus({"text": str(copy)}).content_hash == first


def test_token_file_is_one_stream_mapped_in_place(tmp_path: Path, cache_home: Path) -> None:
    """nanoGPT's layout is read without a copy; it has no borders unless an id makes them."""
    file = tmp_path / "train.bin"
    np.array([5, 9, 700, 5, 1], dtype="<u2").tofile(file)
    stream = load_corpus({"tokens": str(file)})
    assert documents(stream) == [[5, 9, 700, 5, 1]]
    assert stream.vocab_size == 701
    assert not stream.has_document_borders
    assert not list(cache_home.rglob("tokens.npy"))
    cut = load_corpus({"tokens": str(file), "end_of_text": 5})
    assert documents(cut) == [[5], [9, 700, 5], [1]]
    assert cut.has_document_borders


def test_token_file_that_ends_with_the_end_id_has_no_empty_document(tmp_path: Path) -> None:
    """The last end mark closes the last document."""
    file = tmp_path / "train.bin"
    np.array([1, 2, 0], dtype="<u2").tofile(file)
    assert documents(load_corpus({"tokens": str(file), "end_of_text": 0})) == [[1, 2, 0]]


def test_synthetic_corpus_is_the_same_every_time(
    cache_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It depends on its own numbers alone, not on the cache; a sweep file's own class is understood."""
    spec = DataSpec(synthetic=SyntheticSpec(documents=40, mean_tokens=9, min_tokens=3, vocab_size=11))
    first = load_corpus(spec)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    second = load_corpus(spec.model_dump())
    assert first.content_hash == second.content_hash
    assert first.vocab_size == 11
    assert int(first.tokens.max()) < 11
    assert min(np.diff(first.offsets)) >= 3


def test_corpus_of_larger_ids_than_the_model_knows_is_refused(tmp_path: Path) -> None:
    """The message names both numbers; an exact fit passes."""
    file = tmp_path / "train.bin"
    np.array([5, 300], dtype="<u2").tofile(file)
    corpus = load_corpus({"tokens": str(file)})
    corpus.check_vocabulary(301, "mine")
    with pytest.raises(BenchError, match=r"ids up to 300, .* mine takes ids below 300\..*vocab_size >= 301"):
        corpus.check_vocabulary(300, "mine")


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "there is no file"), (b"", "is an empty file"), (b"abc", "has 3 bytes, not a whole number of uint16")],
)
def test_bad_token_file_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    """A missing, empty or cut file is named with the way out."""
    file = tmp_path / "train.bin"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BenchError, match=message):
        load_corpus({"tokens": str(file)})


def test_end_id_that_never_occurs_is_refused(tmp_path: Path) -> None:
    """A wrong id would quietly make one document of everything."""
    file = tmp_path / "train.bin"
    np.array([1, 2], dtype="<u2").tofile(file)
    with pytest.raises(BenchError, match="end_of_text = 7 never occurs"):
        load_corpus({"tokens": str(file), "end_of_text": 7})


def test_glob_without_text_is_refused(tmp_path: Path) -> None:
    """Nothing found, and only empty files found, are told apart."""
    with pytest.raises(BenchError, match="matches no file"):
        load_corpus({"text": f"{tmp_path}/*.txt"})
    (tmp_path / "a.txt").touch()
    with pytest.raises(BenchError, match=r"matches only empty files \(1\)"):
        load_corpus({"text": f"{tmp_path}/*.txt"})


def test_unreadable_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that may not be read is named."""
    (tmp_path / "a.txt").write_text("x")

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(BenchError, match=r"a\.txt cannot be read: Permission denied"):
        load_corpus({"text": f"{tmp_path}/*.txt"})


def test_unknown_corpus_is_refused() -> None:
    """The known ones are listed."""
    with pytest.raises(BenchError, match=r"data\.corpus = wikipedia is not a known corpus. Use stdlib"):
        load_corpus({"corpus": "wikipedia"})


def test_corpus_and_sequences_need_no_torch() -> None:
    """The driver reads corpus facts without paying for torch."""
    code = "import sys, bench.workload.data.corpus, bench.workload.data.sequences; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_standard_library_is_the_default_corpus() -> None:
    """Thousands of documents of real text, each ended by the end mark, and at home in every byte-level preset."""
    corpus = load_corpus(DataSpec())
    lengths = np.diff(corpus.offsets)
    assert lengths.size > 5_000
    assert corpus.tokens.size > 5_000_000
    assert int(lengths.min()) >= 2
    assert np.array_equal(np.flatnonzero(corpus.tokens == 256), corpus.offsets[1:] - 1)
    assert corpus.vocab_size == 257
