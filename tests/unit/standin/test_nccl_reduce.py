"""The reductions of the stand-in's NCCL, called directly, against numpy."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.requirements import require_program

SOURCES = Path(__file__).resolve().parents[3] / "bench" / "standin" / "src"
SLOT_BYTES = 1 << 20
TYPES: dict[str, int] = {
    "int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7, "float64": 8,
}  # fmt: skip
BFLOAT16 = 9
SUM, PRODUCT, MOST, LEAST, AVERAGE = range(5)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Compile the file of the reductions alone."""
    out = tmp_path_factory.mktemp("reduce") / "reduce.so"
    compiler = require_program("gcc", "cc")
    source = SOURCES / "nccl_reduce.c"
    subprocess.run(
        [compiler, "-O1", "-w", "-shared", "-fPIC", "-DSTANDIN_CUDA=13000", "-o", str(out), str(source)], check=True
    )
    return ctypes.CDLL(str(out))


def reduce(library: ctypes.CDLL, ranks: list[np.ndarray[Any, Any]], kind: int, operation: int) -> np.ndarray[Any, Any]:
    """Put each rank's values in its slot and reduce."""
    slots = np.zeros(len(ranks) * SLOT_BYTES, dtype=np.uint8)
    for rank, values in enumerate(ranks):
        raw = values.view(np.uint8)
        slots[rank * SLOT_BYTES : rank * SLOT_BYTES + raw.size] = raw
    out = np.empty_like(ranks[0])
    refused = library.reduce_slots(
        out.ctypes.data_as(ctypes.c_void_p), slots.ctypes.data_as(ctypes.c_void_p), len(ranks),
        ctypes.c_size_t(out.size), kind, operation,
    )  # fmt: skip
    assert refused == 0
    return out


@pytest.mark.parametrize("name", list(TYPES))
def test_each_type_and_operation(library: ctypes.CDLL, name: str) -> None:
    ranks = [np.array(values, dtype=name) for values in ([1, 6, 3], [4, 2, 3], [4, 1, 9])]
    expected = {SUM: [9, 9, 15], PRODUCT: [16, 12, 81], MOST: [4, 6, 9], LEAST: [1, 1, 3], AVERAGE: [3, 3, 5]}
    for operation, values in expected.items():
        assert reduce(library, ranks, TYPES[name], operation).tolist() == values


def test_every_half_survives_the_way_through_float(library: ctypes.CDLL) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    out = reduce(library, [every], TYPES["float16"], SUM)
    same = (out.view(np.uint16) == every.view(np.uint16)) | (np.isnan(out) & np.isnan(every))
    assert same.all()


def test_sums_of_halves_round_to_the_nearest(library: ctypes.CDLL) -> None:
    rng = np.random.default_rng(1)
    bits = [rng.integers(0, 1 << 16, 1 << 17, dtype=np.uint16).view(np.float16) for _ in range(2)]
    out = reduce(library, bits, TYPES["float16"], SUM)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = (bits[0].astype(np.float32) + bits[1].astype(np.float32)).astype(np.float16)
    same = (out == expected) | (np.isnan(out) & np.isnan(expected))
    assert same.all()


def test_bfloat16_rounds_ties_to_even(library: ctypes.CDLL) -> None:
    one, half_step, two_steps = 0x3F80, 0x3B80, 0x3F82  # 1, 2^-8 and 1 + 2^-6
    ranks = [np.array([one, one | 1], dtype=np.uint16), np.array([half_step, half_step], dtype=np.uint16)]
    assert reduce(library, ranks, BFLOAT16, SUM).tolist() == [one, two_steps]


def test_an_unknown_type_or_operation_is_refused(library: ctypes.CDLL) -> None:
    for kind, operation in ((10, SUM), (TYPES["float32"], 5)):
        assert library.reduce_slots(None, None, 1, ctypes.c_size_t(0), kind, operation) == 1
