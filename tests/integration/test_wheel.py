"""The wheel is the whole product: installed beside no checkout, used from an empty folder, it lacks nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from bench.draft.shipped import shipped_sweeps
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

Bench = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it as pip does, without asking a package index for the builder."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE_S)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install it into a folder of its own; what it depends on comes from this environment."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(folder)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True, timeout=PATIENCE_S)
    return folder


@pytest.fixture
def bench(installed: Path, tmp_path: Path) -> Bench:
    """Run its command in an empty folder; its package comes first, before that of the checkout."""
    environment = os.environ | {"PYTHONPATH": str(installed), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    folder = tmp_path / "empty"
    folder.mkdir()

    def run(*arguments: str, program: str = "bench") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", arguments[0]] if program == "python" else [installed / "bin/bench", *arguments]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr
        return done

    return run


def files_of(folder: Path, place: str) -> Iterator[str]:
    """Name each file of a folder of the checkout by its place in the wheel."""
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"{place}/{path.relative_to(folder)}"


def test_wheel_holds_every_file_of_the_package_the_sweeps_and_the_references(wheel: Path) -> None:
    """Settings, the page's assets, the stand-in's C sources and the rest are read when the product runs."""
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {
        *files_of(ROOT / "bench", "bench"),
        *files_of(ROOT / "sweeps", "bench/shipped_sweeps"),
        *files_of(ROOT / "results" / "reference", "bench/reference"),
    }
    assert held == wanted
    assert {"bench/sweep/settings.json", "bench/page/assets/page.css", "bench/standin/src/standin.h"} < held


def test_sweep_of_the_wheel_runs_from_an_empty_folder(bench: Bench, installed: Path, tmp_path: Path) -> None:
    """The two commands of the help, with a row, the plot and the page at the end."""
    where = bench("import bench, bench.sweep.settings; print(bench.__file__)", program="python").stdout
    assert Path(where.strip()).is_relative_to(installed), "the checkout was tested"
    folder = tmp_path / "empty"
    bench("init", "quickstart")
    assert sorted(path.name for path in folder.iterdir()) == ["quickstart.yaml", "schema.json"]
    smallest = ("--only", "micro_batch_size == 16", "--only", "amp_mode == fp32", "--rounds", "1")
    bench("sweep", "quickstart.yaml", "--device", "cpu", *smallest)
    results = folder / "results" / "quickstart"
    (row,) = pd.read_parquet(results / "results.parquet").to_dict("records")
    assert (row["outcome"], row["micro_batch_size"], row["amp_mode"]) == ("ok", 16, "fp32")
    assert (results / "plots" / "memory_throughput.png").stat().st_size > 0
    bench("report", "results/quickstart", "--out", "page.html")
    assert (folder / "page.html").stat().st_size > 0
    assert "cpu-quickstart" in bench("compare", "results/quickstart", "--reference", "--force").stdout


def test_every_shipped_sweep_and_a_new_one_can_be_written_and_planned(bench: Bench) -> None:
    for name in shipped_sweeps():
        bench("init", name)
        bench("plan", f"{name}.yaml", "--gpus", "8")
    bench("init", "--model", "llama-1b", "--global-batch-size", "64", "--gpu", "h100-80gb", "--gpus", "8")
    assert " 0 skipped" in bench("plan", "llama-1b-h100-80gb.yaml", "--gpus", "8").stdout
