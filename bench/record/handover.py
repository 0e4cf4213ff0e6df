"""Documents that the driver hands to a rank as files: both must be of one version of this tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_handover(path: Path, version: int) -> dict[str, Any]:
    """Read a document, without its `format`.

    Raises:
        ValueError: It was written by another version of this tool.
    """
    document: dict[str, Any] = json.loads(path.read_text())
    if document.pop("format") != version:
        raise ValueError(f"{path} has another format than {version}: driver and rank run different versions of bench")
    return document
