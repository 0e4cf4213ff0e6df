"""The HTML document around the body of a page: head, style, the data for its script, and the rule of what is safe."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from bench.report.table import finite
from bench.sweep.names import clean


def document(title: str, body: Sequence[str], data: dict[str, Any], script: str | None) -> str:
    """Write the whole document, from its body's sections, the script's data and the chart's script if it has one."""
    assets = files("bench.page") / "assets"
    css = (assets / "page.css").read_text()
    # "</" would end the script element, whatever JSON string it stands in.
    payload = json.dumps(finite(data), allow_nan=False, ensure_ascii=False, separators=(",", ":")).replace(
        "<", "\\u003c"
    )
    chart = f"<script>{script}</script>" if script is not None else ""
    # No origin is allowed at all: even a mistake of ours could not fetch anything.
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{safe(title)}</title><style>{css}</style></head><body><main>{''.join(body)}</main>"
        f'<script id="data" type="application/json">{payload}</script>{chart}'
        f"<script>{(assets / 'page.js').read_text()}</script></body></html>\n"
    )


def safe(text: str) -> str:
    """Escape a text for HTML, and take out what would change the line it stands in."""
    return html.escape(clean(text) if "\n" not in text else text)
