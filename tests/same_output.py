"""Write what the commands print into a folder, to compare two trees byte for byte, as a refactoring should leave it.

    PYTHONPATH=OLD python -m tests.same_output OLD_OUTPUT
    python -m tests.same_output NEW_OUTPUT
    diff -r OLD_OUTPUT NEW_OUTPUT

Everything comes from stored results and from the shipped sweep files, so that the outputs of one tree are equal always.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMANDS = ("sweep", "plan", "run", "check", "show", "compare", "recommend", "plot", "report", "env", "schema")
BAD_SWEEP = """format: 1
name: bad name!
base:
  model: {preset: gpt2-124}
  global_batch_size: 12
  clipnorm: 1.0
axes:
  amp_mode: [off, bf16]
  micro_batch_size: [1, 2, "4", 5]
measure: {preset: quik}
"""
DUMP = """
import dataclasses
from bench.record.columns import COLUMNS
from bench.record.schema import schema, update_schema
for column in COLUMNS:
    print({field.name: str(getattr(column, field.name)) for field in dataclasses.fields(column)})
print(schema().to_string(), update_schema().to_string())
"""


def main(folder: Path) -> None:
    """Write every output into the folder, a file each."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        jobs = list(_jobs(Path(temporary)))
        with ThreadPoolExecutor(2) as pool:
            for name, text in zip([name for name, _ in jobs], pool.map(_output, [job for _, job in jobs]), strict=True):
                (folder / name).write_text(text.replace(temporary, "TEMPORARY"))
        for path in sorted(Path(temporary).rglob("*")):
            if path.suffix in (".svg", ".html") and "drawn" in path.parts:
                (folder / path.name).write_bytes(path.read_bytes())


def _jobs(temporary: Path) -> list[tuple[str, list[str]]]:
    bench = [sys.executable, "-m", "bench.cli"]
    bad = temporary / "bad.yaml"
    bad.write_text(BAD_SWEEP)
    jobs = [(f"{command}.help", [*bench, command, "--help"]) for command in COMMANDS]
    jobs += [("help", [*bench, "--help"]), ("schema", [*bench, "schema"]), ("bad-sweep", [*bench, "plan", str(bad)])]
    jobs += [("columns", [sys.executable, "-c", DUMP])]
    for sweep in sorted((ROOT / "sweeps").glob("*.yaml")):
        jobs += [
            (f"plan-{sweep.stem}-{form}", [*bench, "plan", str(sweep), "--format", form]) for form in ("table", "json")
        ]
    results = sorted((ROOT / "results" / "reference").iterdir())
    for archive in sorted((ROOT / "tests" / "data" / "golden").glob("*.tar.xz")):
        with tarfile.open(archive) as packed:
            packed.extractall(temporary / archive.stem, filter="data")
        results += [path.parent for path in (temporary / archive.stem).rglob("results.parquet")]
    for result in results:
        at = result.name if result.parent.name == "reference" else str(result.relative_to(temporary)).replace("/", "-")
        for form in ("table", "csv", "markdown", "latex", "json"):
            jobs += [
                (f"{command}-{at}-{form}", [*bench, command, str(result), "--format", form])
                for command in ("show", "compare")
            ]
        for form in ("table", "json"):
            jobs += [
                (f"recommend-{at}-{form}", [*bench, "recommend", str(result), "--run-tokens", "1e9", "--format", form])
            ]
        jobs += [(f"compare-reference-{at}", [*bench, "compare", str(result), "--reference"])]
        drawn = temporary / "drawn" / at
        jobs += [(f"plot-{at}", [*bench, "plot", str(result), "--out", str(drawn)])]
        jobs += [(f"report-{at}", [*bench, "report", str(result), "--out", str(drawn / f"{at}.html")])]
        jobs += [(f"where-{at}", [*bench, "show", str(result), "--where", "micro_batch_sise > 2"])]
    return jobs


def _output(command: list[str]) -> str:
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "SOURCE_DATE_EPOCH": "0"}
    done = subprocess.run(
        command, cwd=tempfile.gettempdir(), env=environment, capture_output=True, text=True, check=False
    )
    return f"{done.stdout}\n--- stderr\n{done.stderr}\n--- exit {done.returncode}\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
