"""Every column of the results and updates tables, declared once; read `time.py` first, as an example of a group.

The parquet schema, the rules across ranks, `docs/columns.md` and the headings of tables all read this registry.
Columns may be added, always nullable; a column is never renamed, retyped or given another meaning without raising
`SCHEMA_VERSION`. Units are base units (bytes, seconds, tokens); missing is null, never 0 or -1.
"""

from __future__ import annotations

from bench.record.column_types import Column
from bench.record.columns.configuration import CONFIGURATION, MODEL, SWITCHES
from bench.record.columns.counts import COUNTS
from bench.record.columns.efficiency import EFFICIENCY
from bench.record.columns.health import HEALTH
from bench.record.columns.identity import IDENTITY
from bench.record.columns.machine import MACHINE
from bench.record.columns.memory import MEMORY
from bench.record.columns.quality import PROOF, QUALITY
from bench.record.columns.time import TIME
from bench.record.columns.updates import UPDATE_COLUMNS

# History of the schema, newest first.
# 1: first version.
SCHEMA_VERSION = 1
"""Version of the two tables below; a file with a larger one is refused by name."""

COLUMNS: tuple[Column, ...] = (
    *IDENTITY,
    *CONFIGURATION,
    *MODEL,
    *SWITCHES,
    *COUNTS,
    *TIME,
    *EFFICIENCY,
    *MEMORY,
    *HEALTH,
    *QUALITY,
    *PROOF,
    *MACHINE,
)
"""Every column of `results.parquet`, in file order."""

COLUMN_BY_NAME: dict[str, Column] = {column.name: column for column in COLUMNS}
UPDATE_COLUMN_BY_NAME: dict[str, Column] = {column.name: column for column in UPDATE_COLUMNS}
