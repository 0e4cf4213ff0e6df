"""`bench` as a program whose corpus takes for ever to prepare, once it says that it began: FILE ARGUMENTS."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from bench.cli import main
from bench.drive import folder
from tests.patience import PATIENCE_S


def prepare(_: Any) -> None:
    """Say so, and get nowhere."""
    BEGUN.touch()
    time.sleep(10 * PATIENCE_S)


if __name__ == "__main__":
    BEGUN = Path(sys.argv.pop(1))
    folder.load_corpus = prepare  # type: ignore[assignment]
    main(prog_name="bench")
