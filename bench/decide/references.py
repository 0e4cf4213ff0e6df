"""Find reference results: real sweeps of a known machine, kept with the tool or beside one's own results."""

from __future__ import annotations

import difflib
from pathlib import Path

import bench as package
from bench.errors import BenchError
from bench.record.store import RESULTS_NAME

_BESIDE_RESULTS = Path("results") / "reference"


def reference_folders(here: Path | None = None) -> dict[str, Path]:
    """List the references by name: below results/reference here, then those of the repository or the package.

    Args:
        here: Directory to look in first; the default is the current one.
    """
    package_folder = Path(package.__file__).parent
    places = (
        (here or Path()) / _BESIDE_RESULTS,
        package_folder.parent / _BESIDE_RESULTS,  # run from a checkout
        package_folder / "reference",  # where a wheel has them
    )
    found: dict[str, Path] = {}
    for place in places:
        for file in sorted(place.glob(f"*/{RESULTS_NAME}")):
            found.setdefault(file.parent.name, file.parent)
    return found


def find_reference(name: str, here: Path | None = None) -> Path:
    """Find one reference by its name, or by the path of a results folder or parquet file.

    Raises:
        BenchError: There is none of that name and no such path; lists those that there are.
    """
    known = reference_folders(here)
    if name in known:
        return known[name]
    path = Path(name)
    if path.exists():
        return path
    raise BenchError(f"--reference {name}: no such reference or path. {_advice(name, known)}")


def _advice(name: str, known: dict[str, Path]) -> str:
    if not known:
        return "No references are installed: give a results folder of the other machine."
    near = difflib.get_close_matches(name, known, n=1)
    listed = ", ".join(f"{known_name} ({path})" for known_name, path in known.items())
    return (f"Did you mean {near[0]}? " if near else "") + f"There are: {listed}; or give a results folder."
