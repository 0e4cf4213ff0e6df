"""docs/own-model.md shows the examples as they are, and files that work as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.sweep.file import load_sweep

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "own-model.md").read_text()
EXAMPLES = sorted((ROOT / "examples" / "own_model").iterdir())
SWEEPS = [text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "format: 1" in text]


@pytest.mark.parametrize("file", [file for file in EXAMPLES if file.is_file()], ids=lambda file: file.name)
def test_page_shows_each_example_as_it_is(file: Path) -> None:
    assert f"\n{file.read_text()}```" in PAGE


@pytest.mark.parametrize("text", SWEEPS, ids=range(len(SWEEPS)))
def test_every_sweep_file_of_the_page_is_one(text: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    assert load_sweep(path).spec.base.model.factory is not None
