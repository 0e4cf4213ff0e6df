"""Goal M10: the same results give the same bytes of report, plots and text, in any process, on any day."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.planted import config, launches, losses, store

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from pathlib import Path
from click.testing import CliRunner
from bench.cli import main

results = sys.argv[1]
for name, arguments in {
    "show.txt": ["show", results],
    "show.json": ["show", results, "--format", "json"],
    "compare.txt": ["compare", results],
    "compare.json": ["compare", results, "--format", "json"],
    "recommend.txt": ["recommend", results],
    "recommend.json": ["recommend", results, "--format", "json"],
    "plot.txt": ["plot", results, "--out", "plots"],
    "report.txt": ["report", results, "--out", "report.html"],
}.items():
    done = CliRunner().invoke(main, arguments, prog_name="bench")
    assert done.exit_code == 0, (arguments, done.output)
    Path(name).write_text(done.stdout)
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Store a sweep of several modes, cuts and world sizes, with updates, one launch out of memory."""
    configs = [
        config(
            1000.0 * ranks * (1 + 0.3 * (mode == "bf16")) * micro**0.2,
            amp_mode=mode,
            micro_batch_size=micro,
            world_size=ranks,
        )
        for mode in ("fp32", "bf16")
        for micro in (1, 2, 4, 8)
        for ranks in (1, 2)
    ]
    configs.append(config(None, amp_mode="fp32", micro_batch_size=16))

    def updates_of(row: Mapping[str, Any]) -> list[dict[str, Any]]:
        return losses([4.0 - 0.1 * number for number in range(5)]) if row["outcome"] == "ok" else []

    return store(tmp_path_factory.mktemp("same") / "results", launches(configs), updates_of)


def written(results: Path, folder: Path, hash_seed: str) -> dict[str, bytes]:
    """Run every command that writes something from results, in a process of its own; what each wrote."""
    folder.mkdir()
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "COLUMNS": "120"}
    command = [sys.executable, "-c", PROGRAM, str(results)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_two_processes_write_the_same_bytes(results: Path, tmp_path: Path) -> None:
    """Sets and dictionaries of text come in another order under another hash seed; nothing written may."""
    first = written(results, tmp_path / "first", "1")
    second = written(results, tmp_path / "second", "2")
    assert {"report.html", "compare.txt", "recommend.json"} <= {*first}
    assert sum(name.endswith(".png") for name in first) == sum(name.endswith(".svg") for name in first) >= 3
    assert {*first} == {*second}
    differing = [name for name, content in first.items() if content != second[name]]
    assert differing == []
