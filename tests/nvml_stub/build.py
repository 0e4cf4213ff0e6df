"""Compile the stub of the NVIDIA driver's library, for processes started with it on LD_LIBRARY_PATH."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.patience import PATIENCE_S
from tests.requirements import require_program

SOURCE = Path(__file__).with_name("libnvidia-ml.c")


def build_stub(folder: Path, *flags: str) -> Path:
    """Compile the stub into a folder and give the folder; skips without gcc."""
    folder.mkdir(parents=True, exist_ok=True)
    compiler = require_program("gcc")
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", library, SOURCE, *flags]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    return folder


def stub_environment(folder: Path, **settings: str) -> dict[str, str]:
    """Give the variables that put the stub before any real library; the loader reads them when a process starts."""
    measured = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
    return {"LD_LIBRARY_PATH": str(folder), **measured, **settings}
