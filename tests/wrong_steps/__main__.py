"""Make wrong steps and see that `bench check` catches each.

    python -m tests.wrong_steps [--known FILE] [--sample N] [right step ...]

Which mutants are right after all is decided by an oracle outside `bench.check`; FILE keeps what it found, as its 200
layouts take most of the time, and a change of the check does not change it. Exits with 1 when a wrong one escapes.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
from click import echo

from tests.wrong_steps.judge import Judged, ask, check
from tests.wrong_steps.mutants import Mutant, mutants_of, right_steps, sample


@click.command()
@click.option("--known", type=click.Path(path_type=Path), help="Keep what the oracle finds in this file.")
@click.option("--sample", "most", type=int, default=10_000, help="Judge so many mutants, always the same.")
@click.argument("names", nargs=-1)
def main(known: Path | None, most: int, names: tuple[str, ...]) -> None:
    """Judge the mutants of these right steps, or of all; print a table and exit with 1 where one escaped."""
    sys.exit(_main(Known(known), most, names))


def _main(known: Known, most: int, names: Sequence[str]) -> int:
    chosen = {name: source for name, source in right_steps().items() if not names or name in names}
    mutants = sample([mutant for name, source in chosen.items() for mutant in mutants_of(name, source)], most)
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        whole = [(source, name) for name, source in chosen.items()]
        asked = [one for one in [*whole, *((m.source, m.origin) for m in mutants)] if one[0] not in known.right]
        for (source, _), is_right in zip(asked, pool.imap(ask, asked), strict=True):
            known.right[source] = is_right
            known.write()
        assert all(known.right[source] for source in chosen.values()), "a right step is not right to the oracle"
        verdicts = pool.imap(check, [(mutant.source, mutant.origin) for mutant in mutants], chunksize=4)
        judged = [Judged(known.right[mutant.source], *found) for mutant, found in zip(mutants, verdicts, strict=True)]
    wrong = [(mutant, found) for mutant, found in zip(mutants, judged, strict=True) if not found.is_equivalent]
    right = [(mutant, found) for mutant, found in zip(mutants, judged, strict=True) if found.is_equivalent]
    for mutant, found in wrong:
        if found.verdict == "PASS":
            _show("ESCAPED  ", mutant, found)
    for mutant, found in wrong:
        if found.verdict == "NOT PROVEN":
            _show("unproven ", mutant, found)
    for mutant, found in right:
        if found.verdict == "FAIL":
            _show("WRONGED  ", mutant, found)
    echo(f"{'':16}mutants  equivalent  wrong  FAIL  NOT PROVEN  PASS")
    for key in dict.fromkeys(mutant.origin for mutant in mutants):
        _row(key, [(m, f) for m, f in zip(mutants, judged, strict=True) if m.origin == key])
    for key in dict.fromkeys(mutant.kind for mutant in mutants):
        _row(key, [(m, f) for m, f in zip(mutants, judged, strict=True) if m.kind == key])
    _row("all", list(zip(mutants, judged, strict=True)))
    escaped = sum(found.verdict == "PASS" for _, found in wrong)
    wronged = sum(found.verdict == "FAIL" for _, found in right)
    echo(f"caught {len(wrong) - escaped} of {len(wrong)} wrong steps; {wronged} of {len(right)} right ones failed")
    return int(escaped > 0 or wronged > 0)


class Known:
    """What the oracle found before, by the source of a mutant."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.right: dict[str, bool] = {}
        if path is not None and path.exists():
            document = json.loads(path.read_text())
            self.right = document["right"] if document["oracle"] == _oracle() else {}

    def write(self) -> None:
        """Keep it, where it is to be kept."""
        if self._path is not None:
            self._path.write_text(json.dumps({"oracle": _oracle(), "right": self.right}))


def _oracle() -> str:
    """Tell one oracle from another."""
    sources = [(Path(__file__).parent / name).read_bytes() for name in ("oracle.py", "ranks.py")]
    return hashlib.sha256(b"".join(sources)).hexdigest()


def _show(mark: str, mutant: Mutant, found: Judged) -> None:
    echo(f"{mark}{mutant.origin}, {mutant.kind}: {mutant.words} [{found.words}]")


def _row(key: str, of: list[tuple[Mutant, Judged]]) -> None:
    wrong = Counter(found.verdict for _, found in of if not found.is_equivalent)
    total = sum(wrong.values())
    counts = f"{len(of):7}  {len(of) - total:10}  {total:5}  {wrong['FAIL']:4}  {wrong['NOT PROVEN']:10}"
    echo(f"{key:16}{counts}  {wrong['PASS']:4}")


if __name__ == "__main__":
    main()
