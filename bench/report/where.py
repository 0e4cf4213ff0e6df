"""Understand `--where 'COLUMN OP VALUE'`: one condition on one column."""

from __future__ import annotations

import difflib
import operator
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.errors import BenchError
from bench.report.named_results import SHOWN_BY_NAME
from bench.units import listed

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_PATTERN = re.compile(r"\s*(?P<column>\w+)\s*(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>(?![=<>!]).*?)\s*", re.DOTALL)
_JOINED = re.compile(
    r"\s*(?:\b(?P<word>and|or)\b|(?P<sign>&&?|\|\|?|,))\s*(?=\w+\s*(?:==|!=|<=|>=|<|>|=))", re.IGNORECASE
)
"""What stands between two conditions in one text, as in other tools."""

_MOST_VALUES = 10
"""Values of a column that are listed where nothing meets a condition."""


@dataclass(frozen=True)
class Condition:
    """Hold one parsed condition."""

    column: str
    """Name of a declared column."""
    op: str
    """One of == != < <= > >=."""
    value: Any
    """Value of the column's kind; None for null."""

    def mask(self, values: Sequence[Any]) -> list[bool]:
        """Say for each value whether it meets the condition.

        A missing value equals null and nothing else, and is neither smaller nor larger than anything. Of a list
        column, == asks whether the list holds the value.
        """
        compare = _COMPARE[self.op]
        if self.value is None:
            return [compare(value is None, True) for value in values]
        if SHOWN_BY_NAME[self.column].kind.startswith("list<"):
            return [value is not None and compare(self.value in value, True) for value in values]
        return [value is not None and compare(value, self.value) for value in values]


def parse_condition(text: str, option: str = "--where") -> Condition:
    """Parse `COLUMN OP VALUE`, the value of the named option, such as `amp_mode == bf16` or `seq_len < 4e3`.

    Raises:
        BenchError: The text has another form, the column does not exist, or the value does not fit it.
    """
    match = _PATTERN.fullmatch(text)
    # In one pair of quotes, whatever looks like a further condition is a part of the value.
    is_one = match is not None and _is_quoted(match["value"]) and match["value"][0] not in match["value"][1:-1]
    if match is not None and not is_one and (joint := _JOINED.search(match["value"])):
        raise BenchError(_several(text, text[: match.start("value")], match["value"], joint, option))
    if match is None or not match["value"]:
        raise BenchError(f"{option} {text!r}: expected COLUMN OP VALUE, OP one of {' '.join(_COMPARE)}.{_meant(text)}")
    column, op = match["column"], match["op"]
    require_columns([column], f"{option} {text!r}: ")
    kind = SHOWN_BY_NAME[column].kind
    value = _parse_value(match["value"], kind, f"{option} {text!r}")
    ordered = kind in ("int64", "float64") or column == "started_utc"
    if op not in ("==", "!=") and (value is None or not ordered):
        what = "null" if value is None else f"{column}, which is not a number"
        raise BenchError(f"{option} {text!r}: {op} does not apply to {what}. Use == or !=.")
    return Condition(column, op, value)


def _several(text: str, start: str, value: str, joint: re.Match[str], option: str) -> str:
    """Say that a text holds several conditions, and how each is given."""
    if (joint["word"] or joint["sign"]).lower() in ("or", "|", "||"):
        return f"{option} {text!r}: there is no `or`, as a row must match every {option}. Ask once for each."
    rest = _JOINED.split(value)[:: _JOINED.groups + 1]
    each = " ".join(f"{option} {shlex.quote(one.strip())}" for one in (start + rest[0], *rest[1:]))
    return f"{option} {text!r} holds {len(rest)} conditions. Give each an option of its own; all must hold:\n  {each}"


def _is_quoted(value: str) -> bool:
    return len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""


def require_columns(names: Iterable[str], where: str = "") -> None:
    """Refuse names that are no column of the results, each with the nearest that is; `where` begins the message."""
    faults = []
    for name in names:
        if name not in SHOWN_BY_NAME:
            hint = " or ".join(_nearest(name))
            hint = f"Did you mean {hint}?" if hint else "docs/columns.md lists them all."
            faults.append(f"{where}{name!r} is not a column of the results. {hint}")
    if faults:
        raise BenchError("\n".join(faults))


def nothing_meets(
    texts: Sequence[str], values_of: Callable[[str], Iterable[Any]], what: str, option: str
) -> BenchError:
    """Say that nothing meets all conditions, and which values each column that they name has."""
    columns = dict.fromkeys(parse_condition(text, option).column for text in texts)
    there = "; ".join(f"of {column}: {_few_values(values_of(column))}" for column in columns)
    conditions = " ".join(f"{option} {shlex.quote(text)}" for text in texts)
    return BenchError(f"no {what} matches {conditions}. Values {there}.")


def _few_values(values: Iterable[Any]) -> str:
    """List the distinct values, at most ten; of more numbers the range."""
    parts = (item for value in values for item in (value if isinstance(value, list | tuple) else [value]))
    distinct = dict.fromkeys(parts)
    known = sorted((value for value in distinct if value is not None), key=lambda value: (str(type(value)), value))
    words = [str(value).lower() if isinstance(value, bool) else str(value) for value in known]
    words += ["null"] * (None in distinct)
    if len(words) > _MOST_VALUES and not isinstance(known[0], str):
        return f"{known[0]} to {known[-1]}"
    return listed(words, _MOST_VALUES) or "null"


def _nearest(name: str) -> list[str]:
    """List at most three columns that begin like the name, else the one spelt most like it."""
    longer = [column for column in SHOWN_BY_NAME if column.startswith(name)] if len(name) > 2 else []
    return longer[:3] or difflib.get_close_matches(name, SHOWN_BY_NAME, n=1, cutoff=0.6)


def _meant(text: str) -> str:
    """Rewrite a condition that is nearly one: = for ==, and the nearest column; empty where nothing is near."""
    match = re.fullmatch(r"\s*(\w+)\s*(=|=>|=<|<>|=!|is|is not)\s*([^=<>!\s].*?)\s*", text)
    if match is None:
        return ""
    name, op, value = match.groups()
    op = {"=": "==", "is": "==", "=>": ">=", "=<": "<="}.get(op, "!=")
    columns = [name] if name in SHOWN_BY_NAME else _nearest(name)
    return f" Did you mean {' or '.join(repr(f'{column} {op} {value}') for column in columns)}?" if columns else ""


def _parse_value(text: str, kind: str, whole: str) -> Any:
    if text == "null":
        return None
    if _is_quoted(text):
        text = text[1:-1]
    kind = kind.removeprefix("list<").removesuffix(">")
    if kind == "string":
        return text
    if kind == "bool":
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise BenchError(f"{whole}: {text!r} is neither true nor false.")
    for parse in (int, float):
        try:
            return parse(text)
        except ValueError:
            continue
    raise BenchError(f"{whole}: {text!r} is not a number. Sizes are in bytes, durations in seconds.")
