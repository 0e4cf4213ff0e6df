"""Phrase two results, before and after: for people as a table, for programs as rows."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.decide.before_after import BeforeAfter
from bench.decide.compare import Compared, flags_of
from bench.decide.compare_output import (
    COMPARE_COLUMNS,
    change_words,
    interval_words,
    loss_notes,
    loss_words,
    peak_change_words,
    reason_words,
    row_of,
    settle_words,
)
from bench.decide.rounds import LEAST_ROUNDS
from bench.decide.verdicts import USUAL_ROUNDS
from bench.report.configurations import Configuration
from bench.report.cut_apart import cut_apart
from bench.report.table import WIDEST, Format, render_rows, render_text
from bench.report.text_table import TextColumn, TextTable
from bench.report.work_rate import short_unit, unit_words
from bench.sweep.names import clean
from bench.units import counted, format_rate, format_seconds, listed, short_number, signed

if TYPE_CHECKING:
    from bench.statistics.verdict import Word

BEFORE_AFTER_COLUMNS = (
    *COMPARE_COLUMNS,
    *("baseline_folder", "baseline_rounds", "baseline_valid_tokens_per_s"),
    *("baseline_valid_tokens_per_s_geometric_mean", "baseline_peak_allocated_bytes"),
)
"""Fields of a row for programs; docs/deciding.md explains them."""
_NOTHING = "nothing that is recorded (machine, versions, environment variables, settings)"
_LONGEST_HEAD = 14
"""The name of a result is cut beyond this above its column [characters]."""
_VERDICTS: tuple[Word, ...] = ("slower", "faster", "same", "unclear")


def render_before_after(
    comparison: BeforeAfter,
    paths: Sequence[Path],
    format: Format = "table",  # noqa: A002 - the option's name
    width: int = WIDEST,
    color: bool = False,
) -> str:
    """Render a comparison of two results in any of the formats; what changed stands before the rows.

    Args:
        comparison: What `compare_results` gave.
        paths: Where the two results are, for the commands that are offered.
        format: One of `FORMATS`; CSV holds the rows alone.
        width: Width of the terminal, for the table [characters].
        color: Whether to use terminal colours in the table.
    """
    if format == "csv" or format == "json":
        return render_rows(list(_rows(comparison)), BEFORE_AFTER_COLUMNS, format, _head(comparison))
    return render_text(_table(comparison, paths), format, width, color)


def _table(comparison: BeforeAfter, paths: Sequence[Path]) -> TextTable:
    before, after = comparison.before.name, comparison.after.name
    ones = comparison.candidates
    alone = [(one, before) for one in comparison.only_before] + [(one, after) for one in comparison.only_after]
    none = ("-",) * len(alone)
    unit = short_unit(one.baseline.row for one in ones)
    names = [*(one.candidate.name for one in ones), *(one.name for one, _ in alone)]
    heads = cut_apart([clean(before), clean(after)], _LONGEST_HEAD)
    columns = (
        TextColumn("micro x accum", tuple(map(clean, names)), is_number=False),
        TextColumn(f"{heads[0]} {unit}/s", (*(short_number(one.baseline.speed) for one in ones), *none), True, keep=8),
        TextColumn(f"{heads[1]} {unit}/s", (*(short_number(one.candidate.speed) for one in ones), *none), True, keep=8),
        TextColumn("verdict", (*(one.verdict.word if one.verdict else "-" for one in ones), *none), is_number=False),
        TextColumn("speed", (*(change_words(one.verdict) for one in ones), *none), is_number=True),
        TextColumn("95 % interval", (*(interval_words(one.verdict) for one in ones), *none), is_number=True, keep=9),
        TextColumn("rounds", (*(_rounds(one) for one in ones), *none), is_number=True, keep=3),
        TextColumn("to settle", (*(settle_words(one.verdict) for one in ones), *none), is_number=True, keep=6),
        TextColumn("peak B", (*(signed(one.peak_change_bytes) for one in ones), *none), is_number=True, keep=7),
        TextColumn("peak", (*(peak_change_words(one) for one in ones), *none), is_number=True, keep=2),
        TextColumn("loss curve", (*(loss_words(one.loss) for one in ones), *none), is_number=False, keep=5),
    )
    reasons = (*(reason_words(one) for one in ones), *(clean(_alone(one, name)) for one, name in alone))
    title, facts = clean(_title(comparison)), clean(_facts(comparison))
    return TextTable(title, facts, columns, reasons, tuple(map(clean, _notes(comparison, paths))))


def _title(comparison: BeforeAfter) -> str:
    counts = Counter(one.verdict.word for one in comparison.candidates if one.verdict)
    said = [f"{counts[word]} {word}" for word in _VERDICTS if counts[word]]
    rest = sum(one.verdict is None for one in comparison.candidates)
    said += [f"{rest} without a ratio"] if rest else []
    sides = ((comparison.before, comparison.only_before), (comparison.after, comparison.only_after))
    said += [f"{len(alone)} only in {side.name}" for side, alone in sides if alone]
    forced = "FORCED, see the notes. " if comparison.is_forced else ""
    return f"{forced}{comparison.after.name} against {comparison.before.name}: {', '.join(said)}"


def _facts(comparison: BeforeAfter) -> str:
    changed = "; ".join(one.words for one in comparison.changed) or _NOTHING
    return f"{_when(comparison)} Changed between them: {changed}"


def _when(comparison: BeforeAfter) -> str:
    before, after = comparison.before, comparison.after
    times = [_time(text) for side in (before, after) for text in (side.first_utc, side.last_utc)]
    if any(time is None for time in times):
        return f"When {before.name} and {after.name} were measured is not recorded."
    first, last, later_first, later_last = [time for time in times if time is not None]
    if later_first > last:
        return f"{after.name} was measured {format_seconds(later_first - last)} later than {before.name}."
    if first > later_last:
        gap = format_seconds(first - later_last)
        return f"{after.name} was measured {gap} EARLIER than {before.name}: the first one named is the baseline."
    return f"Launches of {before.name} and {after.name} took turns."


def _time(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def _alone(one: Configuration, name: str) -> str:
    if one.speeds:
        return (
            f"only in {name}: {format_rate(one.speed, unit_words([one.row]))} over {counted(len(one.speeds), 'round')}"
        )
    return f"only in {name}: {one.fault or one.no_speed}"


def _rounds(one: Compared) -> str:
    before, after = len(one.baseline.speeds), len(one.candidate.speeds)
    return str(before) if before == after else f"{before}, {after}"


def _notes(comparison: BeforeAfter, paths: Sequence[Path]) -> Iterator[str]:
    before, after = comparison.before.name, comparison.after.name
    ones = comparison.candidates
    verdicts = [one.verdict for one in ones if one.verdict is not None]
    if verdicts:
        yield (
            f"speed: {unit_words(one.baseline.row for one in ones)}/s of {after} / {before}, geometric means over "
            "rounds; faster or slower: the whole interval is beyond 0.5 %; same: within 1 %"
        )
    if any(verdict.interval for verdict in verdicts):
        yield (
            "interval: rounds of two results are no pairs, so the spread of both counts in full. It does not say why "
            "they differ: whatever else the machine did in between counts as well. Where that matters, measure both "
            "again in turns"
        )
    if any(verdict.word == "unclear" and verdict.interval for verdict in verdicts):
        yield "to settle: rounds of each result after which an unclear verdict should be clear"
    yield from _more_rounds(comparison, paths)
    if verdicts:
        yield f"peak B: peak allocated bytes of {after} - {before}, worst rank"
    yield from loss_notes(ones)
    by_warning: dict[str, list[str]] = {}
    for one in ones:
        for warning in one.warnings:
            by_warning.setdefault(warning, []).append(one.candidate.name)
    for warning, names in by_warning.items():
        everywhere = len(names) == len(verdicts) > 1
        yield f"{'all configurations' if everywhere else listed(names, 4, '; ')}: {warning}"
    yield from _flag_notes(comparison)
    if any(one.is_refused for one in ones):
        yield "refused: --force compares anyway"


def _flag_notes(comparison: BeforeAfter) -> Iterator[str]:
    """Say of each result what its launches were flagged with, most often first, and in how many configurations."""
    compared = [_both(one) for one in comparison.candidates if one.verdict is not None]
    for name, ones in zip((comparison.before.name, comparison.after.name), zip(*compared, strict=True), strict=False):
        counts = Counter(flag for one in ones for flag in flags_of(one))
        if counts:
            flags = ", ".join(f"{flag} ({count})" for flag, count in counts.most_common())
            yield f"flags in {name}, and in how many of {counted(len(ones), 'configuration')}: {flags}"


def _more_rounds(comparison: BeforeAfter, paths: Sequence[Path]) -> Iterator[str]:
    """Say of a result with single rounds that it gives no interval, and what adds some."""
    sides = (comparison.before.name, comparison.after.name)
    for name, path, ones in zip(sides, paths, zip(*map(_both, comparison.candidates), strict=True), strict=True):
        few = [one for one in ones if 0 < len(one.speeds) < LEAST_ROUNDS]
        if few:
            file = path / "sweep.yaml"
            command = shlex.join(["bench", "sweep", str(file), "--out", str(path), "--rounds", str(USUAL_ROUNDS)])
            more = f"more rounds, as long as nothing has changed: {command}" if file.is_file() else "measure 3 or more"
            yield (
                f"no interval: {name} has one round of {counted(len(few), 'configuration')}, so any difference may be "
                f"noise; {more}"
            )


def _both(one: Compared) -> tuple[Configuration, Configuration]:
    return one.baseline, one.candidate


def _head(comparison: BeforeAfter) -> dict[str, Any]:
    return {
        "forced": comparison.is_forced,
        "before": vars(comparison.before),
        "after": vars(comparison.after),
        "changed": [
            {
                "name": one.name,
                "values": [{"before": before, "after": after} for before, after in one.values],
                "configurations": one.configurations,
            }
            for one in comparison.changed
        ],
    }


def _rows(comparison: BeforeAfter) -> Iterator[dict[str, Any]]:
    before, after = comparison.before.name, comparison.after.name
    for one in comparison.candidates:
        base = one.baseline
        row = row_of(one)
        flags = [
            f"flags in {name}: {', '.join(found)}"
            for name, side in zip((before, after), _both(one), strict=True)
            if (found := flags_of(side))
        ]
        yield row | {
            "notes": [*row["notes"], *flags],
            "folder": after,
            "baseline_folder": before,
            "baseline_rounds": len(base.speeds),
            "rounds": len(one.candidate.speeds),
            "baseline_valid_tokens_per_s": base.speed,
            "baseline_valid_tokens_per_s_geometric_mean": base.geometric_speed,
            "baseline_peak_allocated_bytes": base.peak_bytes,
        }
    for role, name, ones in (
        ("baseline only", before, comparison.only_before),
        ("candidate only", after, comparison.only_after),
    ):
        for alone in ones:
            row = row_of(Compared(alone, alone, _alone(alone, name), False, None, None, None, None, ()))
            yield row | {"role": role, "folder": name, "rounds": len(alone.speeds)}
