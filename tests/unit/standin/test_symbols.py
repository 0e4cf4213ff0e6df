"""Which functions are stubbed, read from torch's own libraries, and how."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench.errors import EnvironmentFault
from bench.standin.symbols import stub_source, wanted_symbols
from tests.requirements import require_program

LIBRARY = """
extern int cudaMalloc(void **, long);
extern int cublasGemmEx(void), other_library(void), ncclOdd(void);
int cudaOfItsOwn(void) { return 0; }
const char *const names[] = {"x", "cuMemCreate", "cuStreamNew_v2", "nvmlInit_v2", "current"};
int use(void **p) { return cudaMalloc(p, 1) + cublasGemmEx() + other_library() + ncclOdd() + cudaOfItsOwn(); }
"""


@pytest.fixture
def torch_lib(tmp_path: Path) -> Path:
    """Compile a library that asks as torch's do."""
    compiler = require_program("gcc", "cc")
    source = tmp_path / "library.c"
    source.write_text(LIBRARY, encoding="utf-8")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(tmp_path / "libtorch_cuda.so"), str(source)], check=True)
    return tmp_path


def test_imported_and_asked_for_but_not_its_own(torch_lib: Path) -> None:
    wanted = wanted_symbols(torch_lib)
    assert {"cudaMalloc", "cublasGemmEx", "ncclOdd", "cuMemCreate", "cuStreamNew_v2", "nvmlInit_v2"} <= wanted
    assert not {"other_library", "cudaOfItsOwn", "current", "use"} & wanted


def test_a_folder_without_libraries_wants_little(tmp_path: Path) -> None:
    assert "cudaMalloc" not in wanted_symbols(tmp_path)


@pytest.mark.parametrize("kept", [None, 3000])
def test_a_damaged_library_is_named(torch_lib: Path, kept: int | None) -> None:
    library = torch_lib / "libtorch_cuda.so"
    library.write_bytes(library.read_bytes()[:kept] if kept else b"#!/bin/sh\n")
    with pytest.raises(EnvironmentFault, match=r"cannot be read; is torch installed whole\? .*libtorch_cuda.so"):
        wanted_symbols(torch_lib)


@pytest.mark.parametrize(
    ("name", "does"),
    [
        ("cublasSgemm_v2", 'return standin_product("cublasSgemm_v2");'),
        ("cublasSetVectorAsync", "{ return 0; }"),
        ("cudnnCreateTensorDescriptor", "*out = (void *)out; return 0;"),
        ("cudaProfilerStart", "{ return 0; }"),
        ("cusparseSpMM", 'standin_refuse("cusparseSpMM"); return 6;'),
        ("cudaIpcGetMemHandle", 'standin_refuse("cudaIpcGetMemHandle"); return 801;'),
        ("ncclCommShrink", 'standin_refuse("ncclCommShrink"); return 3;'),
    ],
)
def test_a_stub_is_quiet_or_says_its_name(name: str, does: str) -> None:
    (line,) = [line for line in stub_source({name}).splitlines() if f" {name}(" in line]
    assert does in line
