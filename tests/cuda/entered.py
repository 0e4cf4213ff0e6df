"""Which lines and branches of the product's CUDA code no test entered: the last step of `make test-cuda`.

    python -m tests.cuda.entered DATA_WITH_STANDIN DATA_WITHOUT

Reads what coverage wrote for the tests on the stand-in GPU and for the fast ones without it, in that order. What
neither entered must stand in `not_entered.toml` with its reason, and what stands there must be entered by none. The
device itself counts only where the stand-in was under it, since the other tests replace torch.cuda by a fake.

Looked at are whole files, and elsewhere in ranks and launches the lines that speak of CUDA, with the branches that
leave them. Coverage sees no branch within a line, such as a conditional expression's.
"""

from __future__ import annotations

import fnmatch
import json
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("not_entered.toml")
ON_STANDIN_ONLY = ("bench/measure/cuda.py",)
WHOLE = (
    *ON_STANDIN_ONLY,
    *("bench/telemetry/*.py", "bench/drive/telemetry.py", "bench/launch/gpu_release.py"),
    *("bench/rank/ceilings_probe.py", "bench/rank/torch_probe.py"),
)
SPEAKS_OF_CUDA = re.compile(r"cuda|nccl|gpu|pinned", re.IGNORECASE)


@dataclass(frozen=True, order=True)
class Missed:
    """State what no test entered: a line, or one way to go on from it."""

    file: str
    line: int
    text: str
    """The line's own, without its indentation."""
    to: int | None = None
    """Where the branch goes that nobody took, negative for out of the function; None: the line itself is missed."""

    def __str__(self) -> str:
        way = "" if self.to is None else " -> out" if self.to < 0 else f" -> line {self.to}"
        return f"{self.file}:{self.line}{way}: {self.text}"


@dataclass(frozen=True)
class Excuse:
    """State why a line, or a branch that leaves it, is not entered."""

    file: str
    line: str
    """Its text: numbers move."""
    reason: str


def missed(reports: Sequence[Mapping[str, Any]], sources: Mapping[str, Sequence[str]]) -> list[Missed]:
    """Find what was missed.

    Args:
        reports: `files` of coverage's JSON: with the stand-in, then without it.
        sources: by file, its lines.
    """
    found = []
    for file, lines in sources.items():
        told = [report.get(file) for report in (reports[:1] if file in ON_STANDIN_ONLY else reports)]
        known = [one for one in told if one is not None]
        if not known:
            found.append(Missed(file, 1, lines[0] if lines else ""))
            continue
        not_run = set.intersection(*(set(one["missing_lines"]) for one in known))
        not_gone = set.intersection(*({tuple(way) for way in one["missing_branches"]} for one in known))
        ways = [(line, None) for line in not_run] + [(line, to) for line, to in not_gone if line not in not_run]
        is_whole = any(fnmatch.fnmatch(file, pattern) for pattern in WHOLE)
        found += [
            Missed(file, line, lines[line - 1].strip(), to)
            for line, to in ways
            if is_whole or SPEAKS_OF_CUDA.search(lines[line - 1])
        ]
    return sorted(found, key=lambda one: (one.file, one.line, one.to or 0))


def verdict(found: Iterable[Missed], listed: Iterable[Excuse]) -> list[str]:
    """Say what is missed and not listed, and what is listed and not missed."""
    found, listed = list(found), list(listed)
    excused = {(one.file, one.line) for one in listed}
    really = {(one.file, one.text) for one in found}
    return [
        *(f"no test enters {one}" for one in found if (one.file, one.text) not in excused),
        *(
            f"{LIST.name} lists what is entered: {one.file}: {one.line}"
            for one in listed
            if (one.file, one.line) not in really
        ),
    ]


def read_list() -> list[Excuse]:
    """Read the committed exceptions."""
    document = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return [Excuse(**entry) for entry in document.get("not_entered", [])]


def _report(data: Path) -> dict[str, Any]:
    """Combine what the processes of one run wrote, and read it."""
    import coverage

    with tempfile.TemporaryDirectory() as folder:
        found = coverage.Coverage(data_file=str(Path(folder) / "all"))
        found.combine([str(path) for path in sorted(data.parent.glob(f"{data.name}*"))], keep=True)
        told = Path(folder) / "told.json"
        found.json_report(outfile=str(told), ignore_errors=True)
        return dict(json.loads(told.read_text(encoding="utf-8"))["files"])


def main(arguments: Sequence[str]) -> int:
    """Print what is wrong; 1 where something is."""
    reports = [_report(Path(data)) for data in arguments]
    files = sorted(
        path
        for folder in ("drive/telemetry.py", "launch/*.py", "measure/cuda.py", "rank/*.py", "telemetry/*.py")
        for path in (ROOT / "bench").glob(folder)
    )
    sources = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").splitlines() for path in files}
    found, listed = missed(reports, sources), read_list()
    wrong = verdict(found, listed)
    for line in wrong:
        print(line)  # noqa: T201
    print(f"CUDA code: {len(found)} lines and branches that no test enters, {len(listed)} reasons in {LIST.name}")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
