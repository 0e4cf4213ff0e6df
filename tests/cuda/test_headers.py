"""The structures and constants declared by hand are those of a CUDA toolkit's own headers, where there is one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from bench.standin.build import find_torch
from tests.requirements import require

pytestmark = pytest.mark.cuda

SOURCES = Path(__file__).resolve().parents[2] / "bench" / "standin" / "src"
HEADERS = {
    "cuda_runtime_api.h": ("cuda", "dim3"),
    "cuda.h": ("CU_", "CUDA_", "CU"),
    "cublasLt.h": ("CUBLAS", "cublasLt"),
    "cudnn.h": ("CUDNN_",),
    "nccl.h": ("nccl",),
}
"""Which header declares the names that start so."""


def _folders() -> list[Path]:
    """List where headers lie: a toolkit's, and those that the libraries' wheels bring."""
    compiler = shutil.which("nvcc")
    folders = [Path(os.environ[name]) / "include" for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    if compiler:
        done = subprocess.run(
            [compiler, "--dryrun", "-x", "cu", "/dev/null"], capture_output=True, text=True, check=False
        )
        top = re.search(r"TOP=(\S+)", done.stderr)
        folders += [Path(top[1]) / "include"] if top else []
    wheels = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    return [folder for folder in [*folders, *sorted(wheels.glob("*/include"))] if folder.is_dir()]


def _declared(cuda: int) -> tuple[list[str], list[str]]:
    """List the constants of our header and, for each structure, expressions of its size and its fields' places."""
    preprocessed = subprocess.run(
        ["cc", "-E", "-P", f"-DSTANDIN_CUDA={cuda}", str(SOURCES / "cuda_types.h")],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    ours = preprocessed[preprocessed.index("cudaSuccess") - 20 :]
    constants = re.findall(r"\b([A-Za-z]\w+) = \d+", ours)
    flat = re.sub(r"(?<!typedef )struct \{[^{}]*\} (\w+);", r"int \1;", ours)
    structures: list[str] = []
    for tag, body, name in re.findall(r"struct ?(\w*) \{([^{}]*)\}([^;]*);", flat):
        spelled = name.split()[-1] if name.strip() else f"struct {tag}"
        structures.append(f"sizeof({spelled})")
        fields = re.findall(r"(\w+)(?:\[\d+\])?(?=\s*[;,])", body)
        structures += [f"offsetof({spelled}, {field})" for field in fields if not field.startswith("reserved")]
    return constants, structures


def _values(expressions: list[str], includes: list[str], flags: list[str], folder: Path) -> dict[str, int]:
    """Compile a program that prints them, and run it."""
    lines = [*includes, "#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
    lines += [f'    printf("%s=%lld\\n", "{one}", (long long)({one}));' for one in expressions]
    source, program = folder / "values.c", folder / "values"
    source.write_text("\n".join([*lines, "    return 0;", "}"]), encoding="utf-8")
    done = subprocess.run(
        ["cc", "-w", *flags, "-o", str(program), str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:3000]
    told = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in (line.rsplit("=", 1) for line in told.splitlines())}


def _header_of(expression: str) -> str:
    name = re.sub(r"^(sizeof|offsetof)\((struct )?", "", expression)
    matching = [
        (len(start), header) for header, starts in HEADERS.items() for start in starts if name.startswith(start)
    ]
    return max(matching)[1]


@pytest.mark.parametrize("header", list(HEADERS))
def test_declarations_equal_the_toolkits(header: str, tmp_path: Path) -> None:
    folders = _folders()
    place = next((folder for folder in folders if (folder / header).is_file()), None)
    require("cuda-headers", None if place else f"there is no {header} of a CUDA toolkit")
    cuda = _toolkit_version(folders) if header.startswith("cuda") else find_torch().cuda
    constants, structures = _declared(cuda)
    expressions = [one for one in constants + structures if _header_of(one) == header]
    assert expressions
    own = _values(expressions, ['#include "cuda_types.h"'], [f"-I{SOURCES}", f"-DSTANDIN_CUDA={cuda}"], tmp_path)
    flags = [f"-I{folder}" for folder in folders]
    theirs = _values(expressions, [f"#include <{header}>"], flags, tmp_path)
    assert own == theirs


def _toolkit_version(folders: list[Path]) -> int:
    for folder in folders:
        header = folder / "cuda.h"
        found = (
            re.search(r"#define CUDA_VERSION (\d+)", header.read_text(encoding="utf-8")) if header.is_file() else None
        )
        if found:
            return int(found[1])
    raise AssertionError("no cuda.h tells its version")
