"""The table of configurations in the page; its script fills, sorts and filters it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.page.data import PageRow
from bench.page.document import safe

_COLUMNS = (
    ("name", "configuration", ""),
    ("speed", "valid tokens/s", "number"),
    ("peak", "peak memory", "number"),
    ("standing", "standing", ""),
    ("loss", "train loss", "number"),
    ("rounds", "rounds", "number"),
    ("proof", "proof", ""),
    ("why", "why not", ""),
)


def table(rows: Sequence[PageRow], shown: Sequence[PageRow], entries: Sequence[dict[str, Any]]) -> str:
    """Write the empty table and its controls; say how many of the rows are shown."""
    heads = "".join(
        f'<th data-key="{key}" aria-sort="none" class="{kind}"><button type="button">{safe(words)}</button></th>'
        for key, words, kind in _COLUMNS
    )
    standings = list(dict.fromkeys((one["standing"], one["standing"]) for one in entries))
    labels = {"open": "not settled", "out": "out: failed, not comparable or refused"}
    options = "".join(f'<option value="{key}">{safe(labels.get(key, key))}</option>' for key, _ in standings)
    summary = ""
    if len(shown) < len(rows):
        summary = (
            f"<p class=caveats>Summarised: {len(shown):,} of {len(rows):,} configurations: the best, and one for "
            f"each reason for failing. <code>bench show</code> lists them all.</p>"
        )
    return (
        f"<h2>All configurations</h2>{summary}"
        '<div class=controls><input id="filter" type="search" placeholder="Filter, such as bf16 2 ranks" '
        'aria-label="Filter the table"><select id="standing" aria-label="Standing"><option value="">all standings'
        f'</option>{options}</select><span id="count" class=quiet aria-live="polite"></span></div>'
        f'<div class=scroll><table id="configurations"><thead><tr>{heads}</tr></thead><tbody></tbody></table></div>'
        "<p class=quiet>Click a row for everything recorded about it. Standing: tie = as fast as the choice, within "
        "noise; not settled = may be as fast; slower = by more than noise, or by more than 10 % with only one "
        "round.</p>"
        '<section id="details" aria-live="polite" hidden></section>'
    )
