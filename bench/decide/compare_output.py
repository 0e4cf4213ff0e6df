"""Phrase a comparison: for people as a table, for programs as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bench.decide.compare import Compared, Comparison
from bench.decide.loss_curves import CurveVerdict
from bench.decide.pair_statistics import HALF_WIDTHS, LEAST_SIGN_FLIP_ROUNDS, PairStatistics
from bench.decide.verdicts import SpeedVerdict
from bench.report.configurations import speed_fields
from bench.report.named_results import FOLDER
from bench.report.table import WIDEST, Format, render_rows, render_text
from bench.report.text_table import TextColumn, TextTable
from bench.report.work_rate import unit_words
from bench.sweep.names import clean
from bench.units import between, counted, format_bytes, format_count, format_rate, percent, signed

_SETTINGS = (
    *("model", "amp_mode", "world_size", "micro_batch_size", "accumulation_steps", "global_batch_size", "seq_len"),
    *("rows", "optimizer", "activation_checkpointing", "gradient_sync", "window_mode", "hostname", "gpu_name"),
    "torch_version",
)
_ROUNDS_FOR = {width: f"rounds_for_{100 * width:g}_percent".replace(".", "_") for width in HALF_WIDTHS}
_SHOWN_WIDTH = 0.01
"""The half-width for which people are told the rounds; the rows for programs tell all."""
COMPARE_COLUMNS = (
    *("role", "name", "trial_id", *_SETTINGS),
    *("verdict", "valid_tokens_per_s_ratio", "valid_tokens_per_s_ratio_low", "valid_tokens_per_s_ratio_high"),
    *("p_value", "sign_flip_p", "rounds", "rounds_needed", "detectable_change", *_ROUNDS_FOR.values()),
    *("valid_tokens_per_s", "peak_allocated_bytes", "peak_change_bytes"),
    *("peak_ratio", "loss", "loss_updates", "loss_largest_relative_difference", "reason", "notes"),
    *("folder", "valid_tokens_per_s_geometric_mean"),
)
"""Fields of a row for programs; docs/deciding.md explains them."""


def render_comparison(
    comparison: Comparison,
    format: Format = "table",  # noqa: A002 - the option's name
    width: int = WIDEST,
    color: bool = False,
) -> str:
    """Render a comparison in any of the formats; JSON and CSV have the baseline as their first row."""
    if format == "csv" or format == "json":
        rows = [_base_row(comparison), *map(row_of, comparison.candidates)]
        head = {"forced": comparison.is_forced}
        return render_rows(rows, COMPARE_COLUMNS, format, head)
    return render_text(_table(comparison), format, width, color)


def _table(comparison: Comparison) -> TextTable:
    base, ones = comparison.baseline, comparison.candidates
    rounds = len(base.speeds)
    title = f"baseline: {clean(base.name)}"
    facts = (
        f"{format_rate(base.speed, unit_words([base.row]))} over {counted(rounds, 'round')}, "
        f"peak {_exact_bytes(base.peak_bytes)}"
        if rounds
        else clean(f"does not fit ({base.fault}), so there is no speed to compare with")
    )
    if comparison.is_forced:
        facts = f"FORCED: some candidates are not comparable with the baseline, see the notes. {facts}"
    columns = (
        TextColumn("candidate: micro x accum", tuple(clean(one.candidate.name) for one in ones), is_number=False),
        TextColumn("verdict", tuple(one.verdict.word if one.verdict else "-" for one in ones), is_number=False),
        TextColumn("speed", tuple(change_words(one.verdict) for one in ones), is_number=True),
        TextColumn("95 % interval", tuple(interval_words(one.verdict) for one in ones), is_number=True, keep=8),
        TextColumn("rounds", tuple(str(one.verdict.rounds) if one.verdict else "-" for one in ones), True, keep=3),
        TextColumn("to settle", tuple(settle_words(one.verdict) for one in ones), is_number=True, keep=7),
        TextColumn("peak B", tuple(signed(one.peak_change_bytes) for one in ones), is_number=True, keep=6),
        TextColumn("peak", tuple(peak_change_words(one) for one in ones), is_number=True, keep=8),
        TextColumn("loss curve", tuple(loss_words(one.loss) for one in ones), is_number=False, keep=5),
        *_statistics_columns(ones),
    )
    return TextTable(title, facts, columns, tuple(reason_words(one) for one in ones), tuple(_notes(comparison)))


def _statistics_columns(ones: Sequence[Compared]) -> Iterator[TextColumn]:
    """Show what else the rounds tell of each pair, where they are enough to tell it."""
    if _has_sign_flips(ones):
        flips = tuple("-" if one.statistics is None else f"{one.statistics.sign_flip_p:.2g}" for one in ones)
        yield TextColumn("sign-flip p", flips, is_number=True, keep=4)


def _what_more_rounds_give(known: Sequence[PairStatistics], rounds: int) -> str:
    """Say what these rounds could find, and what a narrow interval takes; of all candidates at once."""
    changes = [100 * one.detectable_change for one in known]
    least, most = (f"{change:,.1f}" if change < 100 else f"{change:,.0f}" for change in (min(changes), max(changes)))
    found = f"with {counted(rounds, 'round')}, a true {_span(least, most)} % speed-up is detected 80 % of the time"
    counts = sorted(count for one in known if (count := one.rounds_for[_SHOWN_WIDTH]) is not None)
    if not counts:
        return found
    return f"{found}; a +-1 % interval takes {_span(format_count(counts[0]), format_count(counts[-1]))} rounds"


def _span(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _has_sign_flips(ones: Sequence[Compared]) -> bool:
    return any(one.verdict and one.statistics and one.verdict.rounds >= LEAST_SIGN_FLIP_ROUNDS for one in ones)


def reason_words(one: Compared) -> str | None:
    """Say why a candidate has no ratio; null where it has one."""
    if one.reason is None:
        return None
    return clean(f"refused: {one.reason}" if one.is_refused else one.reason)


def _notes(comparison: Comparison) -> list[str]:
    ones = comparison.candidates
    if not any(one.verdict for one in ones):
        return []
    unit = unit_words([comparison.baseline.row])
    speed = f"speed: {unit}/s against the baseline, paired by round; faster or slower: the whole interval is "
    notes = [speed + "beyond 0.5 %; same: within 1 %"]
    single = [one for one in ones if one.verdict and one.verdict.note]
    if single:
        told = dict.fromkeys(one.verdict.note for one in single if one.verdict)
        notes.append(
            f"{'; '.join(told)}: without an interval a difference may be noise. Measure 3 or more rounds "
            f"(measure.rounds in the sweep file)."
        )
    notes.append("to settle: total number of rounds after which an unclear verdict should be clear")
    if known := [one.statistics for one in ones if one.statistics is not None]:
        notes.append(_what_more_rounds_give(known, len(comparison.baseline.speeds)))
    if _has_sign_flips(ones):
        notes.append(
            "sign-flip p: chance of so large a difference if each round's sign were random; per pair, uncorrected"
        )
    notes += loss_notes(ones)
    notes += [f"baseline {comparison.baseline.name}: {warning}" for warning in comparison.warnings]
    notes += [f"{one.candidate.name}: {warning}" for one in ones for warning in one.warnings]
    if any(one.is_refused for one in ones):
        notes.append("refused: --force compares anyway")
    return [clean(note) for note in notes]


def loss_notes(ones: Sequence[Compared]) -> Iterator[str]:
    """Say how closely loss curves agree, and of each that does not where it parts."""
    agreeing = [one.loss for one in ones if one.loss and one.loss.word == "agree"]
    if agreeing:
        largest = max(loss.largest or 0.0 for loss in agreeing)
        yield (
            f"loss curve agrees: over {min(loss.updates for loss in agreeing)} updates or more, losses match within "
            f"{largest:.1g} (relative), as expected from rounding"
        )
    for one in ones:
        if one.loss and one.loss.word == "differ":
            yield f"{one.candidate.name}: loss curves differ first at {one.loss.note}"
        elif one.loss and one.loss.word == "agree" and one.loss.note:
            yield f"{one.candidate.name}: loss curve {one.loss.note}"


def change_words(verdict: SpeedVerdict | None) -> str:
    """Say the change of speed, +12.3 %; a dash without a verdict."""
    return "-" if verdict is None else percent(verdict.ratio)


def interval_words(verdict: SpeedVerdict | None) -> str:
    """Say the interval of the change of speed; a dash without one."""
    if verdict is None or verdict.ratio_low is None or verdict.ratio_high is None:
        return "-"
    return between(verdict.ratio_low, verdict.ratio_high)


def settle_words(verdict: SpeedVerdict | None) -> str:
    """Say how many rounds should settle an unclear verdict; a dash for others."""
    if verdict is None or verdict.word != "unclear":
        return "-"
    if verdict.interval is None:
        return f">= {verdict.rounds_needed}"
    return "-" if verdict.rounds_needed is None else f"{verdict.rounds_needed:,}"


def _exact_bytes(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,} B ({format_bytes(count)})"


def peak_change_words(one: Compared) -> str:
    """Say how much more memory the candidate takes than its baseline, as a share; a dash for unknown."""
    if one.peak_change_bytes is None or not one.baseline.peak_bytes:
        return "-"
    return f"{100 * one.peak_change_bytes / one.baseline.peak_bytes:+.1f} %"


def loss_words(loss: CurveVerdict | None) -> str:
    """Say whether the loss curves agree; a dash where they were not compared."""
    if loss is None or loss.word == "not compared":
        return "-"
    if loss.word == "differ":
        return "differs"
    return "agrees"


def _base_row(comparison: Comparison) -> dict[str, Any]:
    base = comparison.baseline
    return {
        "role": "baseline",
        "name": base.name,
        "trial_id": base.row["trial_id"],
        **{name: base.row.get(name) for name in (*_SETTINGS, FOLDER.name)},
        "rounds": len(base.speeds),
        **speed_fields(base),
        "peak_allocated_bytes": base.peak_bytes,
        "reason": None if base.speeds else f"does not fit ({base.fault})",
        "notes": list(comparison.warnings),
    }


def row_of(one: Compared) -> dict[str, Any]:
    """Give the fields of one candidate, for programs; what does not apply is left out."""
    verdict, loss, base = one.verdict, one.loss, one.baseline
    row: dict[str, Any] = {
        "role": "candidate",
        "name": one.candidate.name,
        "trial_id": one.candidate.row["trial_id"],
        **{name: one.candidate.row.get(name) for name in (*_SETTINGS, FOLDER.name)},
        **speed_fields(one.candidate),
        "peak_allocated_bytes": one.candidate.peak_bytes,
        "peak_change_bytes": one.peak_change_bytes,
        "reason": one.reason,
        "notes": [*one.warnings, *([verdict.note] if verdict and verdict.note else [])],
    }
    if one.peak_change_bytes is not None and base.peak_bytes:
        row["peak_ratio"] = 1 + one.peak_change_bytes / base.peak_bytes
    if verdict is not None:
        row |= {
            "verdict": verdict.word,
            "valid_tokens_per_s_ratio": verdict.ratio,
            "valid_tokens_per_s_ratio_low": verdict.ratio_low,
            "valid_tokens_per_s_ratio_high": verdict.ratio_high,
            "p_value": verdict.p_value,
            "rounds": verdict.rounds,
            "rounds_needed": verdict.rounds_needed,
        }
    if one.statistics is not None:
        row |= {
            "sign_flip_p": one.statistics.sign_flip_p,
            "detectable_change": one.statistics.detectable_change,
            **{name: one.statistics.rounds_for[width] for width, name in _ROUNDS_FOR.items()},
        }
    if loss is not None:
        row |= {
            "loss": loss.word,
            "loss_updates": loss.updates,
            "loss_largest_relative_difference": loss.largest,
        }
        if loss.note:
            row["notes"] = [*row["notes"], f"loss: {loss.note}"]
    return row
