"""The sweep files that come with the tool: the checkout's `sweeps/`, which a wheel holds too."""

from __future__ import annotations

from pathlib import Path

import bench as package
from bench.errors import BenchError
from bench.sweep.file import load_sweep, question_of
from bench.sweep.keys import closest

_PLACES = ("shipped_sweeps", "../sweeps")
"""From the package's folder: where a wheel has them (pyproject.toml), and where a checkout does."""


def shipped_sweeps() -> dict[str, Path]:
    """List the shipped sweep files by name."""
    folder = next(path for place in _PLACES if (path := Path(package.__file__).parent / place).is_dir())
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def gpus_needed(name: str) -> int:
    """Tell how many GPUs all of a shipped sweep takes; 0 where it runs on a CPU too."""
    sweep = load_sweep(shipped_sweeps()[name])
    return max(sweep.spec.axes.get("world_size", [1])) if sweep.devices_asked() == {"cuda"} else 0


def questions() -> dict[str, str]:
    """Say of each shipped sweep, by name, what it asks."""
    return {name: question_of(path.read_text(encoding="utf-8")) for name, path in shipped_sweeps().items()}


def shipped_text(name: str, out: str) -> str:
    """Read a shipped sweep as it is to lie at `out`, which the commands in its comments then name.

    Raises:
        BenchError: There is none of that name; says which there are.
    """
    known = shipped_sweeps()
    if name not in known:
        near = closest(name, known)
        raise BenchError(
            f"There is no shipped sweep {name!r}. " + (f"Did you mean {near}? " if near else "") + "There are "
            f"{', '.join(known)}; `bench init` says what each asks. To write one for your own model, give --model."
        )
    return known[name].read_text(encoding="utf-8").replace(f"sweeps/{name}.yaml", out)
