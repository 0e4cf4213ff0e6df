"""Freeze a results folder as this version writes it: `python -m tests.data.make_golden`. Frozen ones are never changed.

To be run when columns were added or the schema's version was raised, before a release. The archive holds the folder
and `facts.json`, what its rows say.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path

from bench.record.columns import COLUMNS, SCHEMA_VERSION
from tests.integration import trivial

GOLDEN = Path(__file__).parent / "golden"
FACTS = "facts.json"
SWEEP = trivial.sweep_of({"seed": [0, 6], "micro_batch_size": [2, 3]})
"""Two trials, of which the first goes well and the second fails, and two points that are skipped."""


def freeze(folder: Path) -> Path:
    """Run the small sweep into `folder` and pack it; return the archive.

    Raises:
        FileExistsError: This version was frozen before.
    """
    archive = GOLDEN / f"schema-{SCHEMA_VERSION}-columns-{len(COLUMNS)}.tar.xz"
    trivial.run(SWEEP, folder)
    facts = trivial.facts_of(folder).drop(columns="config_json").astype(object)
    document = facts.where(facts.notna(), None).to_dict("records")
    (folder / FACTS).write_text(json.dumps(document, indent=1))
    with tarfile.open(archive, "x:xz") as tar:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            tar.add(path, path.relative_to(folder).as_posix(), filter=_without_owner)
    return archive


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(freeze(Path(scratch) / "results"))  # noqa: T201 - a command
