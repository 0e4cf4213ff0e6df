"""Say what a path is that somebody took for results, and what to name instead."""

from __future__ import annotations

import re
from pathlib import Path

from bench.record.store import RESULTS_NAME, UPDATES_NAME
from bench.units import listed

JOURNAL_NAME = "journal.jsonl"
_MOST_NAMED = 6
_FIRST_BYTES = 10_000
_NAME = re.compile(r"^name:\s*[\"']?([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)


def why_no_results_file(path: Path) -> str | None:
    """Say why a file is not to be read as results, and what to name instead; None where it may be results."""
    if path.suffix in (".yaml", ".yml"):
        return _of_sweep_file(path)
    if path.name == UPDATES_NAME or path.name.endswith(".updates.parquet"):
        return "holds the updates of launches, not the launches. Name its folder."
    if path.parent.name == "parts" and (path.parents[1] / JOURNAL_NAME).exists():
        return f"holds only one launch. Name the folder {path.parents[1]}."
    if path.suffix != ".parquet":
        folder = path.parent
        of = f"Name the folder {folder}" if _is_results(folder) else f"Name a results folder or its {RESULTS_NAME}"
        return f"not a results file: only parquet is read. {of}."
    return None


def why_no_results_folder(path: Path) -> str:
    """Say what a folder without results holds instead, and what to name."""
    inside = sorted(child for child in path.iterdir() if child.is_dir())
    held = [child for child in inside if _is_results(child)]
    if not held:
        held = [grandchild for child in inside for grandchild in sorted(child.iterdir()) if _is_results(grandchild)]
    if held:
        names = listed(list(map(str, held)), _MOST_NAMED)
        return f"holds no results itself, but these folders do: {names}. Name one or more of them."
    if path.name in ("parts", "logs", "plots") and _is_results(path.parent):
        return f"is part of the results folder {path.parent}. Name that one."
    return (
        f"not a results folder: it has neither {RESULTS_NAME} nor {JOURNAL_NAME}. "
        "`bench sweep` writes one under results/."
    )


def _is_results(folder: Path) -> bool:
    return folder.is_dir() and any((folder / name).exists() for name in (RESULTS_NAME, JOURNAL_NAME))


def _of_sweep_file(path: Path) -> str:
    with path.open("rb") as file:
        found = _NAME.search(file.read(_FIRST_BYTES).decode("utf-8", "replace"))
    if found is None:
        return "is a YAML file, not results. Name a results folder."
    folder = Path("results") / found[1]
    there = f"its results are in {folder}" if _is_results(folder) else f"its results will be in {folder}"
    run = "" if _is_results(folder) else f" once `bench sweep {path}` has run"
    return f"is a sweep file; {there}{run}. Name that folder."
