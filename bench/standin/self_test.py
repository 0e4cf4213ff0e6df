"""Does the stand-in carry this torch? Asked once for each build; what fails is refused in words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.errors import EnvironmentFault
from bench.standin.build import find_torch, library_folder
from bench.standin.switches import environment

_LIMIT_S = 600.0
_MEMORY_BYTES = 8 * 1024**3
_PASSED = "self-test-passed"


def check(again: bool = False) -> float | None:
    """Run the self-test in a process of its own, unless this build has passed it before.

    Args:
        again: run it in any case.

    Returns:
        How long it took, torch's import included [s]; None where it had passed before.

    Raises:
        EnvironmentFault: It fails; says which part and why. Also as `environment`.
        StorageError: As `environment`.
    """
    passed = library_folder() / _PASSED
    if passed.exists() and not again:
        return None
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        _run_parts(Path(folder))
    passed.touch()
    return time.monotonic() - start


def _run_parts(folder: Path) -> None:
    variables = environment(gpu="a100-80gb", count=2, memory_bytes=_MEMORY_BYTES, ledger=folder / "ledger")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("STANDIN_", "CUDA_", "PYTORCH_"))}
    command = [sys.executable, "-m", "bench.rank.standin_parts"]
    try:
        done = subprocess.run(
            command, env=kept | variables, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _refusal("the whole", f"no end within {_LIMIT_S:g} s") from error
    lines = done.stdout.splitlines()
    try:
        told = json.loads(lines[-1])
    except (IndexError, ValueError):
        says = done.stderr.strip().splitlines()[-3:]
        raise _refusal("the start", f"the process ended with {done.returncode}: {' / '.join(says)}") from None
    if told["failed"]:
        raise _refusal(told["failed"], told["why"])


def _refusal(part: str, why: str) -> EnvironmentFault:
    torch_build = find_torch()
    return EnvironmentFault(
        f"the stand-in GPU does not carry torch {torch_build.version} (CUDA {torch_build.cuda // 1000}."
        f"{torch_build.cuda % 1000 // 10}): its self-test fails at {part}: {why}"
    )
