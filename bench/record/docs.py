"""Write the reference of all columns as Markdown, from the registry; docs/columns.md is this text."""

from __future__ import annotations

from collections.abc import Iterable

from bench.record.column_types import RULE_WORDS, Column
from bench.record.columns import COLUMNS, SCHEMA_VERSION
from bench.record.columns.updates import UPDATE_COLUMNS

_HEAD = f"""# Columns

<!-- Generated from bench/record/columns/ by `python -m bench.record.docs > docs/columns.md`. Do not edit. -->

Schema version {SCHEMA_VERSION}. Every column may be null: the value does not exist or was not measured. 0 and -1 never
mean that. Values are in base units: bytes, seconds, tokens. "Across ranks" says how the values of a launch's ranks
become one. The [glossary](glossary.md) explains words such as *timed part* and *worst rank*.

A measured float that is not finite (a loss that diverged) is stored as it is, so that it is not mistaken for a missing
one. CSV and JSON cannot express it and leave it out; the columns `outcome` and `reason` then say why.

Two tables lie side by side. `results.parquet` has one row per launch (the last attempt of each trial and round), with
the key (`trial_id`, `round`, `attempt`), and one row per skipped or pruned trial. `updates.parquet` has one row per
update of those launches.

Commands add one more column to the rows they read, `folder`: the name of the results folder or file that a row was read
from, or of all of them with `--pool`. `--where`, `--columns`, CSV and JSON know it like any other.

```python
import pandas
frame = pandas.read_parquet("results/quickstart/results.parquet")  # integers stay integers where some are null
```
"""


def docs_text() -> str:
    """Return the text of docs/columns.md: one table per group of columns."""
    groups = dict.fromkeys(column.group for column in COLUMNS)
    sections = [_section(group, [column for column in COLUMNS if column.group == group], 3) for group in groups]
    updates = _section("updates.parquet", UPDATE_COLUMNS, 2)
    return "\n".join([_HEAD, "## results.parquet\n", *sections, updates])


def _section(title: str, columns: Iterable[Column], level: int) -> str:
    lines = [_line(column) for column in columns]
    heading = title if level == 2 else title[0].upper() + title[1:]
    head = (
        f"{'#' * level} {heading}\n\n| name | type | unit | across ranks | meaning |\n| --- | --- | --- | --- | --- |\n"
    )
    return head + "\n".join(lines) + "\n"


def _line(column: Column) -> str:
    kind = column.kind.replace("<", " of ").replace(">", "")
    return f"| `{column.name}` | {kind} | {column.unit or ''} | {RULE_WORDS[column.rule]} | {column.sentence} |"


if __name__ == "__main__":
    print(docs_text(), end="")  # noqa: T201 - the generator's output is the document
