"""A token file is flat uint16; what only looks so is named before it is read."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import BenchError
from bench.workload.data.token_files import find_token_file, read_token_file

IDS = np.arange(5000) % 250
LLMC = np.zeros(256, dtype="<i4")


def llmc_file(path: Path, magic: int, kind: str) -> None:
    """Write a token file as llm.c does: magic, version, count, then the ids."""
    header = LLMC.copy()
    header[:3] = magic, 1, IDS.size
    path.write_bytes(header.tobytes() + IDS.astype(kind).tobytes())


def refusal(path: Path) -> str:
    """Give what is said of a file that is refused."""
    with pytest.raises(BenchError) as caught:
        find_token_file(str(path))
    return str(caught.value)


def test_numpy_file_is_refused_with_the_line_that_makes_it_flat(tmp_path: Path) -> None:
    """Its header would be read as ids."""
    path = tmp_path / "ids.npy"
    np.save(path, IDS.astype("uint16"))
    said = refusal(path)
    assert "is a numpy file with a header (.npy)" in said
    assert """numpy.load('ids.npy').astype("uint16").tofile("ids-uint16.bin")""" in said
    assert "if all are below 65,536" in said


@pytest.mark.parametrize("is_new", [True, False])
def test_torch_file_is_refused(tmp_path: Path, is_new: bool) -> None:
    """Both the zip archive of today and the pickle of before."""
    path = tmp_path / "ids.pt"
    torch.save(torch.tensor(IDS), path, _use_new_zipfile_serialization=is_new)
    assert "is an archive, as torch.save (.pt) and numpy.savez (.npz) write" in refusal(path)


def test_archive_of_numpy_is_refused(tmp_path: Path) -> None:
    """It is a zip file too."""
    path = tmp_path / "ids.npz"
    np.savez(path, IDS)
    assert "numpy.savez (.npz)" in refusal(path)


def test_header_of_llmc_is_refused_and_the_advice_gives_the_ids(tmp_path: Path) -> None:
    """256 int32, of which the first names the kind."""
    path = tmp_path / "train.bin"
    llmc_file(path, 20240520, "<u2")
    assert "llm.c's token files (256 int32, 20240520)" in refusal(path)
    assert """numpy.fromfile('train.bin', "<u2")[512:].tofile("train-flat.bin")""" in refusal(path)
    np.fromfile(path, "<u2")[512:].tofile(tmp_path / "flat.bin")
    assert read_token_file(find_token_file(str(tmp_path / "flat.bin")), None).tokens.tolist() == IDS.tolist()
    llmc_file(path, 20240801, "<u4")
    assert "llm.c's token files (20240801) and uint32 ids after it" in refusal(path)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("<u4", "holds uint32 ids, it seems: read as uint16, every second value is 0."),
        ("<i4", "holds uint32 ids, it seems: read as uint16, every second value is 0."),
        ("<i8", "holds int64 ids, it seems: read as uint16, 3 of 4 values are 0."),
    ],
)
def test_wider_ids_are_suspected(tmp_path: Path, kind: str, said: str) -> None:
    """They would train, as a language in which every second token, or three of four, is token 0."""
    path = tmp_path / "train.bin"
    IDS.astype(kind).tofile(path)
    assert said in refusal(path)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(16, 200_000),
    st.integers(32, 3000),
    st.sampled_from(["<u4", "<i4", "<i8", "<u8"]),
    st.sampled_from([(), (-100,), (-1,)]),
)
def test_ids_of_any_vocabulary_and_wider_type_are_suspected(
    seed: int, vocabulary: int, count: int, kind: str, masks: tuple[int, ...]
) -> None:
    """Ids above 65,535 and masked ones too; the kind is named by its width."""
    ids = np.random.default_rng(seed).integers(0, vocabulary, count)
    ids[0] = vocabulary - 1
    if "i" in kind and masks:
        ids[1::7] = masks[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.bin"
        ids.astype(kind).tofile(path)
        assert f"holds {'int64' if '8' in kind else 'uint32'} ids" in refusal(path)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 65_536), st.integers(1, 3000))
def test_flat_ids_of_any_vocabulary_are_read_as_they_are(seed: int, vocabulary: int, count: int) -> None:
    """No vocabulary and no length is taken for something else."""
    ids = np.random.default_rng(seed).integers(0, vocabulary, count).astype("<u2")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.bin"
        ids.tofile(path)
        assert np.array_equal(read_token_file(find_token_file(str(path)), None).tokens, ids)


def test_few_values_are_not_judged(tmp_path: Path) -> None:
    """A pattern of a handful is chance."""
    path = tmp_path / "train.bin"
    np.array([5, 0, 9, 0, 7, 0], dtype="<u2").tofile(path)
    assert find_token_file(str(path)) == path.resolve()


def test_folder_is_named_as_one(tmp_path: Path) -> None:
    """It exists, but is no file."""
    assert f"data.tokens = {tmp_path} is a folder." in refusal(tmp_path)


def test_beginning_of_the_old_torch_files_is_torchs_own() -> None:
    """The bytes are those that this torch writes."""
    from bench.workload.data.token_files import _TORCH_PICKLE

    assert pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2).startswith(_TORCH_PICKLE)
