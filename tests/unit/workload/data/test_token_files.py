"""A token file is mapped as it says it is; what only looks like flat uint16 is named before it is read."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import BenchError
from bench.workload.data.corpus import load_corpus
from bench.workload.data.token_files import find_token_file, read_token_file

IDS = np.arange(5000) % 250
Layout = Literal["flat", "header", "npy"]


def write(path: Path, ids: np.ndarray[Any, Any], dtype: str, layout: Layout) -> None:
    """Write ids as the tools do that make token files."""
    if layout == "npy":
        with path.open("wb") as file:
            np.save(file, ids.astype(dtype))
        return
    header = np.zeros(256, dtype="<i4")
    header[:3] = 20240520 if dtype == "<u2" else 20240801, 1, ids.size
    path.write_bytes((header.tobytes() if layout == "header" else b"") + ids.astype(dtype).tobytes())


def refusal(path: Path, token_dtype: str | None = None) -> str:
    """Give what is said of a file that is refused, when it is found or read."""
    with pytest.raises(BenchError) as caught:
        read_token_file(find_token_file(str(path), token_dtype), None)
    return str(caught.value)


@settings(max_examples=100)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 200_000),
    st.integers(1, 3000),
    st.sampled_from(["<u2", "<u4", "<i4", "<i8"]),
    st.sampled_from(["flat", "header", "npy"]),
)
def test_every_layout_gives_the_ids_that_were_written(
    seed: int, vocabulary: int, count: int, dtype: str, layout: Layout
) -> None:
    """Whatever the width, where the file tells it or token_dtype does; nothing is copied."""
    dtype = dtype if vocabulary <= 65_536 or dtype != "<u2" else "<u4"
    dtype = {"<i4": "<u4", "<i8": "<u4"}.get(dtype, dtype) if layout == "header" else dtype
    ids = np.random.default_rng(seed).integers(0, vocabulary, count)
    names = {"<u2": "uint16", "<u4": "uint32", "<i4": "uint32", "<i8": "int64"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.bin"
        write(path, ids, dtype, layout)
        made = read_token_file(find_token_file(str(path), names[dtype] if layout == "flat" else None), None)
        assert made.tokens.tolist() == ids.tolist()
        assert (made.vocab_size, made.has_document_borders) == (ids.max() + 1, False)
        assert made.token_file is not None
        assert made.token_file.path == path.resolve()


@pytest.mark.parametrize("layout", ["flat", "header", "npy"])
def test_ids_are_opened_again_from_where_they_lie(tmp_path: Path, cache_home: Path, layout: Layout) -> None:
    """The cache keeps where they begin and of which type they are, but no copy."""
    path = tmp_path / "train.bin"
    write(path, IDS, "<u4", layout)
    data = {"tokens": str(path), "token_dtype": "uint32" if layout == "flat" else None}
    first, second = load_corpus(data), load_corpus(data)
    assert isinstance(second.tokens, np.memmap)
    assert first.tokens.tolist() == second.tokens.tolist() == IDS.tolist()
    assert first.content_hash == second.content_hash
    assert not list(cache_home.rglob("tokens.npy"))


def test_equal_ids_have_an_equal_hash_in_every_layout(tmp_path: Path) -> None:
    """The header and the width are no data."""
    hashes = set()
    for number, (layout, dtype) in enumerate([("flat", "<u2"), ("header", "<u4"), ("npy", "<i8")]):
        path = tmp_path / f"{number}.bin"
        write(path, IDS, dtype, layout)  # type: ignore[arg-type]
        hashes.add(load_corpus({"tokens": str(path)}).content_hash)
    assert len(hashes) == 1


def test_numpy_file_of_more_dimensions_or_other_values_is_refused(tmp_path: Path) -> None:
    """With the line that saves what is read."""
    path = tmp_path / "ids.npy"
    np.save(path, IDS.reshape(50, 100))
    assert "numpy file (.npy) with 2 dimensions: its shape is (50, 100)" in refusal(path)
    assert """numpy.save("ids-ids.npy", numpy.load('ids.npy').reshape(-1).astype("uint32"))""" in refusal(path)
    np.save(path, IDS / 2)
    assert "with float64 values" in refusal(path)
    np.save(path, IDS[:0])
    assert "without values" in refusal(path)
    np.save(path, np.array([{}], dtype=object))
    assert "cannot be mapped" in refusal(path)


@pytest.mark.parametrize("is_new", [True, False])
def test_torch_file_is_refused(tmp_path: Path, is_new: bool) -> None:
    """Both the zip archive of today and the pickle of before."""
    path = tmp_path / "ids.pt"
    torch.save(torch.tensor(IDS), path, _use_new_zipfile_serialization=is_new)
    assert "is an archive, as torch.save (.pt) and numpy.savez (.npz) write" in refusal(path)
    assert """numpy.save("ids.npy", torch.load('ids.pt').numpy())""" in refusal(path)


def test_archive_of_numpy_is_refused(tmp_path: Path) -> None:
    """It is a zip file too."""
    path = tmp_path / "ids.npz"
    np.savez(path, IDS)
    assert "numpy.savez (.npz)" in refusal(path)


def test_header_that_does_not_fit_its_file_is_refused(tmp_path: Path) -> None:
    """A file that was cut short would train on less, unnoticed."""
    path = tmp_path / "train.bin"
    write(path, IDS, "<u2", "header")
    path.write_bytes(path.read_bytes()[:-2])
    said = refusal(path)
    assert "says that 5000 ids follow, but 9998 bytes do: neither 5000 uint16 nor 5000 uint32" in said


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("<u4", "holds uint32 ids, it seems: read as uint16, every second value is 0. Add token_dtype: uint32"),
        ("<i4", "holds uint32 ids, it seems: read as uint16, every second value is 0. Add token_dtype: uint32"),
        ("<i8", "holds int64 ids, it seems: read as uint16, 3 of 4 values are 0. Add token_dtype: int64"),
    ],
)
def test_wider_ids_are_suspected(tmp_path: Path, kind: str, said: str) -> None:
    """They would train, as a language in which every second token, or three of four, is token 0."""
    path = tmp_path / "train.bin"
    IDS.astype(kind).tofile(path)
    assert said in refusal(path)
    assert find_token_file(str(path), "uint16").count == IDS.size * np.dtype(kind).itemsize // 2, "the way out holds"


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


@pytest.mark.parametrize("dtype", ["<u4", "<i4", "<i8"])
def test_labels_with_masks_are_no_ids(tmp_path: Path, dtype: str) -> None:
    """-100 is named as such, whichever type it was stored in, with its position."""
    path, ids = tmp_path / "labels.npy", IDS.copy()
    ids[7] = -100
    write(path, ids, dtype, "npy")
    assert "value 7 is -100, which is no token id" in refusal(path)


def test_type_that_a_file_contradicts_is_refused(tmp_path: Path) -> None:
    """Its own word holds; a type that fits is no fault."""
    path = tmp_path / "train.bin"
    write(path, IDS, "<u2", "header")
    assert "data.token_dtype = uint32 is not what train.bin says of itself: its ids are uint16" in refusal(
        path, "uint32"
    )
    assert find_token_file(str(path), "uint16").start == 1024


def test_file_of_no_whole_number_of_ids_is_cut_short(tmp_path: Path) -> None:
    """As the type has it that was given."""
    path = tmp_path / "train.bin"
    IDS[:3].astype("<u2").tofile(path)
    assert "has 6 bytes, not a whole number of uint32 ids" in refusal(path, "uint32")


def test_few_values_are_not_judged(tmp_path: Path) -> None:
    """A pattern of a handful is chance."""
    path = tmp_path / "train.bin"
    np.array([5, 0, 9, 0, 7, 0], dtype="<u2").tofile(path)
    assert find_token_file(str(path)).dtype == "<u2"


def test_folder_is_named_as_one(tmp_path: Path) -> None:
    """It exists, but is no file."""
    assert f"data.tokens = {tmp_path} is a folder." in refusal(tmp_path)


def test_beginning_of_the_old_torch_files_is_torchs_own() -> None:
    """The bytes are those that this torch writes."""
    from bench.workload.data.token_files import _TORCH_PICKLE

    assert pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2).startswith(_TORCH_PICKLE)
