"""Who may import whom."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TORCH_FREE = [
    "bench.cli",
    "bench.cli.init",
    "bench.cli.sweep",
    "bench.cli.check",
    "bench.cli.plan",
    "bench.cli.show",
    "bench.cli.plot",
    "bench.cli.compare",
    "bench.cli.recommend",
    "bench.cli.report",
    "bench.sweep.file",
    "bench.sweep.schema",
    "bench.draft.sweep_file",
    "bench.draft.target",
    "bench.record.store",
    "bench.report.select",
    "bench.report.table",
    "bench.plots.memory_throughput",
    "bench.plots.draw",
    "bench.decide.compare",
    "bench.decide.recommend",
    "bench.page.build",
    "bench.telemetry.nvml",
    "bench.drive.driver",
    "bench.drive.proofs",
    "bench.machine.environment",
    "bench.workload.data.corpus",
]


@pytest.mark.slow
def test_import_contracts_hold() -> None:
    """Layers point down, torch and others stay where they belong: the contracts of pyproject.toml."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports"))], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_what_needs_no_torch_runs_where_torch_cannot_be_imported() -> None:
    """With torch blocked every torch-free module still imports."""
    program = "import sys; sys.modules['torch'] = None\n" + "\n".join(f"import {name}" for name in TORCH_FREE)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_help_loads_neither_pandas_nor_matplotlib() -> None:
    """`bench --help` stays quick."""
    program = (
        "import sys\nfrom bench.cli import main\n"
        "try: main(['--help'], standalone_mode=False)\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'pandas', 'matplotlib', 'pyarrow', 'pydantic'} & set(sys.modules)\n"
        "assert heavy <= set(), heavy"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
