"""The journal forgives a torn last line and nothing else."""

import errno
import os
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import StorageError
from bench.record.journal import Journal, encode_line, parse_journal, read_journal

RECORDS = [
    {"kind": "header", "sweep": "quick", "format": 1},
    {"kind": "launch", "trial_id": "0123456789ab", "round": 0, "attempt": 0, "outcome": "ok"},
    {"kind": "skip", "trial_id": "ba9876543210", "reason": "tf32 on a CPU is \u2260 anything"},
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


@pytest.fixture
def written(path):
    with Journal(path) as journal:
        for record in RECORDS:
            journal.append(record)
    return path


def test_records_come_back_in_order(written):
    """What was appended is what is read, by a writer and by a bystander."""
    with Journal(written) as journal:
        assert list(journal.records()) == RECORDS
        assert journal.torn_bytes == 0
    assert list(read_journal(written)) == RECORDS


def test_a_line_holds_the_checksum_of_its_record(written):
    """The format on disk is the documented one."""
    canonical = b'{"format":1,"kind":"header","sweep":"quick"}'
    assert written.read_bytes().splitlines()[0] == b'{"crc": "%08x", "record": %s}' % (zlib.crc32(canonical), canonical)


@settings(max_examples=40)
@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_any_json_record_survives(record):
    """Encoding and parsing are inverse for every JSON object, lone surrogates included."""
    records, size = parse_journal(encode_line(record), "x")
    assert records == [record]
    assert size == len(encode_line(record))


def test_every_truncation_keeps_the_whole_lines(written):
    """Wherever a crash cuts the file, exactly the records before the cut are kept."""
    content = written.read_bytes()
    for size in range(len(content)):
        records, kept = parse_journal(content[:size], written)
        assert records == RECORDS[: content[:size].count(b"\n")]
        assert kept == content[:size].rfind(b"\n") + 1


@pytest.mark.parametrize("missing", [1, 20, 150])
def test_a_torn_tail_is_cut_and_said_before_anything_follows(written, caplog, missing):
    """A new record never lands behind half a line, where it would be lost with it."""
    content = written.read_bytes()[:-missing]
    written.write_bytes(content)
    whole = content.count(b"\n")
    with Journal(written) as journal:
        assert list(journal.records()) == RECORDS[:whole]
        assert journal.torn_bytes == len(content) - (content.rfind(b"\n") + 1) > 0
        journal.append({"kind": "after"})
    assert list(read_journal(written)) == [*RECORDS[:whole], {"kind": "after"}]
    assert "cut off an unfinished last line" in caplog.text


def test_no_flipped_bit_passes_as_another_record(written):
    """A flip is an error that names the line, or costs the last line its end; it never changes a record."""
    content = written.read_bytes()
    for position in range(len(content) * 8):
        damaged = bytearray(content)
        damaged[position // 8] ^= 1 << (position % 8)
        if position // 8 == len(content) - 1:  # the last newline: without it, the line is a torn one
            assert parse_journal(bytes(damaged), written)[0] == RECORDS[:-1]
            continue
        with pytest.raises(StorageError, match=r"journal\.jsonl:\d+: "):
            parse_journal(bytes(damaged), written)


def test_a_broken_first_line_is_an_error_with_its_number(written):
    """Damage that is no torn tail is real loss, so it is not skipped."""
    lines = written.read_bytes().splitlines(keepends=True)
    written.write_bytes(lines[0][: len(lines[0]) // 2] + b"\n" + b"".join(lines[1:]))
    for read in (Journal, read_journal):
        with pytest.raises(StorageError, match=r"journal\.jsonl:1: .*damaged"):
            read(written)


def test_a_line_that_json_would_forgive_is_still_damage(written):
    """Other spacing means that something else wrote the line."""
    written.write_bytes(written.read_bytes().replace(b'": {', b'":  {', 1))
    with pytest.raises(StorageError, match=":1:"):
        read_journal(written)


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_refused_write_leaves_the_journal_as_it_was(written, monkeypatch, call):
    """A full disk is a StorageError naming the file, and the record is not half there."""
    before = written.read_bytes()
    with Journal(written) as journal:

        def refuse(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(os, call, refuse)
            with pytest.raises(StorageError, match=r"journal\.jsonl: cannot be appended to .*No space left"):
                journal.append({"kind": "lost"})
        assert written.read_bytes() == before
        assert list(journal.records()) == RECORDS
        journal.append({"kind": "kept"})
    assert list(read_journal(written)) == [*RECORDS, {"kind": "kept"}]


def test_a_short_write_is_undone(written, monkeypatch):
    """A disk that takes half a line leaves no half line behind."""
    before, real = written.read_bytes(), os.write
    with Journal(written) as journal:
        monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:7]))
        with pytest.raises(StorageError, match="only part of the line"):
            journal.append({"kind": "lost"})
    assert written.read_bytes() == before


def test_every_append_is_synchronised(path, monkeypatch):
    """One write and one fsync per record: what append returned from survives a power cut."""
    calls = []
    real_write, real_sync = os.write, os.fsync
    with Journal(path) as journal:
        monkeypatch.setattr(os, "write", lambda fd, data: calls.append("write") or real_write(fd, data))
        monkeypatch.setattr(os, "fsync", lambda fd: calls.append("fsync") or real_sync(fd))
        journal.append({"kind": "header"})
    assert calls == ["write", "fsync"]


def test_nan_is_not_json(path):
    """A record that strict readers could not read is refused."""
    with Journal(path) as journal, pytest.raises(ValueError, match="JSON"):
        journal.append({"loss": float("nan")})


def test_a_folder_that_is_not_there_is_a_storage_error(tmp_path):
    """The message names the journal that could not be opened."""
    with pytest.raises(StorageError, match=r"nowhere/journal\.jsonl: cannot be opened"):
        Journal(tmp_path / "nowhere" / "journal.jsonl")


def test_a_journal_that_was_deleted_or_replaced_takes_no_more_records(path):
    """Nobody would ever read what is written to a deleted file."""
    with Journal(path) as journal:
        journal.append({"kind": "header"})
        path.unlink()
        with pytest.raises(StorageError, match="No such file"):
            journal.append({"kind": "launch"})
        path.write_bytes(b"")
        with pytest.raises(StorageError, match="taken its place"):
            journal.append({"kind": "launch"})
