"""Write every file that is generated from the code: `make docs`. A test of each keeps it fresh."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
GENERATED = {
    "bench/sweep/settings.json": "bench.sweep.describe",  # first: the others read it
    "sweeps/schema.json": "bench.sweep.schema",
    "docs/sweep-file.md": "bench.sweep.docs",
    "docs/columns.md": "bench.record.docs",
    "docs/cli.md": "bench.cli.docs",
}
"""File to the module that prints it."""


def main() -> None:
    """Write each file whole or not at all."""
    for name, module in GENERATED.items():
        done = subprocess.run([sys.executable, "-m", module], cwd=ROOT, check=True, capture_output=True)
        part = ROOT / f"{name}.part"
        part.write_bytes(done.stdout)
        part.replace(ROOT / name)


if __name__ == "__main__":
    main()
