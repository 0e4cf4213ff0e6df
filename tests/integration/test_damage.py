"""Damaged files: every cut and flipped bit is found, named and put right, and nothing damaged is used in silence."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.drive.folder import repair_folder
from bench.drive.history import History
from bench.errors import StorageError
from bench.record.journal import read_journal
from bench.record.store import PartInfo, read_part, read_table, read_update_table, verify_part
from bench.report.select import select_table, select_updates
from tests.integration import trivial
from tests.integration.trivial import SIX_TRIALS, same_results

pytestmark = pytest.mark.slow

READERS = {"results.parquet": read_table, "updates.parquet": read_update_table}
"""What `bench show`, `compare` and `recommend` read a table by."""


def parts_of(folder: Path) -> list[PartInfo]:
    """List every good part of a folder."""
    return History(read_journal(folder / "journal.jsonl")).parts()


def flipped(content: bytes, chance: random.Random) -> bytes:
    """Flip one bit."""
    damaged = bytearray(content)
    damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def shorter_and_shorter(path: Path) -> Iterator[int]:
    """Cut a file by one byte at a time, down to nothing, and give the length at each."""
    with path.open("r+b") as file:
        for length in reversed(range(path.stat().st_size)):
            file.truncate(length)
            yield length


@pytest.mark.parametrize("which", ["part", "updates_part"])
def test_every_truncation_of_a_part_is_found_where_it_is_read(folder: Path, which: str) -> None:
    """R5: at each length, by what a resume asks and by what `bench show` reads."""
    info = parts_of(folder)[0]
    path = folder / getattr(info, which)
    lengths = 0
    for _ in shorter_and_shorter(path):
        for read in (verify_part, read_part):
            with pytest.raises(StorageError, match=path.name):
                read(folder, info)
        lengths += 1
    assert lengths > 3000


@pytest.mark.parametrize("name", READERS)
def test_every_truncation_of_a_table_is_found_where_it_is_read(folder: Path, finished: Path, name: str) -> None:
    """R5: at each length; no journal holds the hash of a table, its own digest has to do."""
    path = folder / name
    lengths = 0
    for _ in shorter_and_shorter(path):
        with pytest.raises(StorageError, match=name):
            READERS[name](path)
        lengths += 1
    assert lengths > 10_000
    assert trivial.run(SIX_TRIALS, folder).launched == 0, "the parts are whole"
    assert READERS[name](path).equals(READERS[name](finished / name)), "made anew"


def test_truncated_part_is_named_and_its_launch_runs_again(folder: Path, finished: Path) -> None:
    """By a whole sweep, at some lengths of both parts: nothing left, half, and all but the last byte."""
    info = parts_of(folder)[0]
    for name in (info.part, info.updates_part):
        whole = (finished / name).read_bytes()
        for length in (0, 1, len(whole) // 2, len(whole) - 1):
            shutil.rmtree(folder)
            shutil.copytree(finished, folder)
            (folder / name).write_bytes(whole[:length])
            watcher = trivial.Quiet()
            assert trivial.run(SIX_TRIALS, folder, progress=watcher).launched == 1
            assert any(Path(name).name in note for note in watcher.notes)
            same_results(folder, finished)


def test_thousand_bit_flips_of_parts_are_all_found_and_only_their_launches_run_again(
    folder: Path, finished: Path
) -> None:
    """R5: no silent change. One seeded bit of one of the twelve files at a time, then of all of them at once."""
    chance = random.Random(20)
    infos = parts_of(folder)
    names = [name for info in infos for name in (info.part, info.updates_part)]
    for number in range(1000):
        info, name = infos[number % 12 // 2], names[number % 12]
        whole = (finished / name).read_bytes()
        (folder / name).write_bytes(flipped(whole, chance))
        with pytest.raises(StorageError, match=f"{Path(name).name}: damaged"):
            verify_part(folder, info)
        (folder / name).write_bytes(whole)
    for name in names[::2]:
        (folder / name).write_bytes(flipped((finished / name).read_bytes(), chance))
    assert trivial.run(SIX_TRIALS, folder).launched == 6
    same_results(folder, finished)


def test_thousand_bit_flips_of_the_tables_give_no_other_value(folder: Path, finished: Path) -> None:
    """R5: each is refused by name, or the table says what it always did.

    A few bits of a parquet file mean nothing, such as the name of the program that wrote it.
    """
    chance = random.Random(21)
    whole = {name: (finished / name).read_bytes() for name in READERS}
    good = {name: read(finished / name) for name, read in READERS.items()}
    found = 0
    for name, read in [*READERS.items()] * 500:
        (folder / name).write_bytes(flipped(whole[name], chance))
        try:
            assert read(folder / name).equals(good[name]), "a changed value was read in silence"
        except StorageError as error:
            assert name in str(error)  # noqa: PT017 - most flips are found, some are harmless
            found += 1
    assert found > 300
    assert trivial.run(SIX_TRIALS, folder).launched == 0, "the parts are whole"
    same_results(folder, finished)


def test_damaged_table_is_refused_by_what_reads_a_folder(folder: Path) -> None:
    """`bench show`, `compare` and the rest come this way; the parts are not read in its place without a word."""
    for name, select in (("updates.parquet", select_updates), ("results.parquet", _results)):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:100] + bytes(8) + content[108:])
        with pytest.raises(StorageError, match=name):
            select(folder)


def _results(folder: Path) -> object:
    return select_table([folder])


def test_missing_part_is_run_again(folder: Path, finished: Path) -> None:
    """Somebody tidied up."""
    next((folder / "parts").glob("*.updates.parquet")).unlink()
    assert trivial.run(SIX_TRIALS, folder).launched == 1
    same_results(folder, finished)


def test_journal_cut_at_any_byte_resumes_to_the_same_end(folder: Path, finished: Path) -> None:
    """F19: whatever a power cut left of it; what its whole lines promise is kept."""
    whole = (finished / "journal.jsonl").read_bytes()
    chance = random.Random(19)
    lengths = {0, 1, len(whole) - 1, *(chance.randrange(len(whole)) for _ in range(25))}
    for length in sorted(lengths):
        shutil.rmtree(folder)
        shutil.copytree(finished, folder)
        (folder / "journal.jsonl").write_bytes(whole[:length])
        kept = sum(b'"kind":"launch"' in line for line in whole[:length].split(b"\n")[:-1])
        assert trivial.run(SIX_TRIALS, folder).launched == 6 - kept
        assert trivial.run(SIX_TRIALS, folder).launched == 0, "what was appended is read again"
        same_results(folder, finished)


def test_damaged_line_stops_the_sweep_by_number_and_repair_keeps_all_others(folder: Path, finished: Path) -> None:
    """The line's launch is run again, and the damaged journal is kept."""
    path = folder / "journal.jsonl"
    lines = path.read_bytes().split(b"\n")
    bad = max(index for index, line in enumerate(lines) if b'"kind":"launch"' in line)
    lines[bad] = lines[bad].replace(b"launch", b"lunch!", 1)
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(StorageError, match=rf"journal.jsonl:{bad + 1}: .*--repair"):
        trivial.run(SIX_TRIALS, folder)
    damaged = path.read_bytes()
    assert str(bad + 1) in repair_folder(folder)[0]
    assert (folder / "journal.jsonl.damaged-1").read_bytes() == damaged
    trivial.run(SIX_TRIALS, folder)
    same_results(folder, finished)
    assert repair_folder(folder) == ["the journal is intact: nothing to repair"]
