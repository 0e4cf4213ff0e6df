"""Every sweep file that is shipped loads, expands and says what it asks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.sweep.expand import MachineFacts, expand
from bench.sweep.file import load_sweep
from bench.sweep.trial import Trial
from tests.patience import PATIENCE_S

SWEEPS = sorted((Path(__file__).parents[3] / "sweeps").glob("*.yaml"))


def test_the_shipped_sweeps_are_found() -> None:
    """The quickstart among them: without it the tests below would test nothing."""
    assert "quickstart.yaml" in {path.name for path in SWEEPS}


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.name)
def test_a_shipped_sweep_is_a_good_example(path: Path) -> None:
    """It names the schema, asks a question, is called like its file, gives every skip a reason, and has trials."""
    sweep = load_sweep(path)
    assert sweep.text.startswith("# yaml-language-server: $schema=./schema.json\n# Question: ")
    assert sweep.question.endswith("?")
    assert sweep.name == path.stem
    entries = expand(sweep, MachineFacts("cuda", 8))
    assert sum(isinstance(entry, Trial) for entry in entries) >= len(entries) / 2


def test_the_quickstart_runs_on_a_cpu_as_on_a_gpu() -> None:
    """Nobody needs a GPU for the first look: all of it runs on both."""
    sweep = load_sweep(next(path for path in SWEEPS if path.name == "quickstart.yaml"))
    for facts in (MachineFacts("cpu", 0), MachineFacts("cuda", 1)):
        assert all(isinstance(entry, Trial) for entry in expand(sweep, facts))


def test_reading_a_sweep_does_not_import_torch() -> None:
    """Plans and reports start at once, also where torch is not installed."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import bench.sweep.file, bench.sweep.flags, bench.sweep.schema\n"
        "assert not [name for name in sys.modules if name.startswith('torch.')]\n"
        f"bench.sweep.file.load_sweep({str(SWEEPS[0])!r})\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S)
