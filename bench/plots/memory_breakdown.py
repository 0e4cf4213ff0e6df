"""Draw what the peak memory consists of, as stacked bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from bench.plots.figure import NothingToDraw, framed
from bench.plots.style import INK, QUIET
from bench.record.columns.memory import divided_bytes
from bench.report.cut_apart import cut_apart
from bench.report.points import Row, extra_axes, name_of
from bench.sweep.names import cut
from bench.units import byte_unit, format_bytes

# Okabe and Ito, in an order in which neighbours differ in lightness as well.
_COLORS = {
    "parameters": "#0072B2",
    "gradients": "#56B4E9",
    "optimizer state": "#009E73",
    "activations": "#E69F00",
    "DDP buckets": "#CC79A7",
    "temporaries": "#F0E442",
    "activations and temporaries": "#D55E00",
    "allocator rounding": "#999999",
}
_OF_THE_MICRO_BATCH = ("activations", "temporaries", "activations and temporaries")
_MOST_BARS, _LONGEST_NAME = 18, 34
_WHAT_IS_WHAT = (
    "Activations: kept for the backward. Temporaries: the rest of what was requested, such as gradients of "
    "activations, casts and scratch. Beside each bar: the peak and the phase in which it occurred."
)


@dataclass(frozen=True)
class Breakdown:
    """Hold the parts of one trial's peak, worst rank [bytes]."""

    name: str
    """Name of the configuration."""
    parts: Mapping[str, int]
    """Bytes by the name of the part, in the order of the bar; parts of a peak that was not divided are one."""
    phase: str
    """What the loop was at; empty when unknown."""

    @property
    def total(self) -> int:
        """Give the whole bar: the peak, or the three known parts where they are more."""
        return sum(self.parts.values())

    @property
    def share(self) -> float:
        """Give what activations and temporaries are of the whole, from 0 to 1."""
        return sum(self.parts.get(name, 0) for name in _OF_THE_MICRO_BATCH) / max(1, self.total)


def breakdowns(rows: Sequence[Row]) -> list[Breakdown]:
    """Divide the peaks of all trials that know their parts; largest launch of each trial, in order of appearance.

    A peak that was not divided, as by an earlier version, is all gradients and a rest, which at one accumulation step
    is counted too small: not all gradients may exist at the peak.
    """
    largest: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        known = [row.get(name) for name in ("parameter_bytes", "gradient_bytes", "optimizer_state_bytes")]
        if row["outcome"] != "ok" or row.get("peak_allocated_bytes") is None or None in known:
            continue
        trial = (row.get("folder"), row["trial_id"])
        before = largest.get(trial)
        if before is None or row["peak_allocated_bytes"] > before["peak_allocated_bytes"]:
            largest[trial] = row
    extra = extra_axes(list(largest.values()))
    return [_breakdown(row, extra) for row in largest.values()]


def _breakdown(row: Row, extra: Sequence[str]) -> Breakdown:
    model = row["parameter_bytes"] + (row.get("buffer_bytes") or 0)
    divided = row.get("activation_bytes") is not None
    gradients = row["gradient_at_peak_bytes" if divided else "gradient_bytes"]
    parts = {"parameters": model, "gradients": gradients, "optimizer state": row["optimizer_state_bytes"]}
    if divided:
        parts["activations"] = row["activation_bytes"]
        parts["DDP buckets"] = row["ddp_bucket_bytes"]
        parts["temporaries"] = row["temporary_bytes"]
    else:
        parts["activations and temporaries"] = max(0, (divided_bytes(row) or 0) - sum(parts.values()))
    if row.get("allocator_rounding_bytes") is not None:
        parts["allocator rounding"] = row["allocator_rounding_bytes"]
    return Breakdown(name_of(row, extra), parts, row.get("peak_phase") or "")


def draw(rows: Sequence[Row], _updates: Sequence[Row] = ()) -> Figure:
    """Draw one stacked bar per trial.

    Raises:
        NothingToDraw: No row knows its peak and its parts.
    """
    bars = breakdowns(rows)
    if not bars:
        raise NothingToDraw("memory-breakdown: no row has a peak and the bytes of parameters, gradients and state.")
    most, least = (choose(bars, key=lambda bar: bar.share) for choose in (max, min))
    title = f"Activations and temporaries are {_share(most)} of the peak at {_whole(most.name)}"
    if len(bars) > 1:
        title += f", {_share(least)} at {_whole(least.name)}"
    notes = [_WHAT_IS_WHAT]
    if any("activations and temporaries" in bar.parts for bar in bars):
        notes.append(
            "Where activations and temporaries are one part, the peak was not broken down: all gradients are drawn, "
            "though at one accumulation step fewer may be alive at the peak."
        )
    if len(bars) > _MOST_BARS:
        notes.append(f"The {_MOST_BARS} largest of {len(bars)} are drawn.")
        bars = sorted(bars, key=lambda bar: -bar.total)[:_MOST_BARS]
    figure, (left, bottom, width, height) = framed(title, "", rows, notes)
    names = cut_apart([bar.name for bar in bars], _LONGEST_NAME)
    shift = 0.0088 * max(map(len, names))
    axes = figure.add_axes((left - 0.07 + shift, bottom, width + 0.05 - shift, height))
    unit, size = byte_unit(max(bar.total for bar in bars))
    places = list(range(len(bars)))[::-1]
    starts = [0.0] * len(bars)
    for part, color in _COLORS.items():
        widths = [bar.parts.get(part, 0) / size for bar in bars]
        if not any(widths):
            continue
        axes.barh(
            places, widths, left=starts, color=color, height=0.7, label=part, zorder=3, edgecolor="white", linewidth=0.6
        )
        starts = [start + width_ for start, width_ in zip(starts, widths, strict=True)]
    for place, bar, end in zip(places, bars, starts, strict=True):
        words = f"{format_bytes(bar.total)}, {bar.phase}" if bar.phase else format_bytes(bar.total)
        axes.annotate(
            words, (end, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8.5, color=INK
        )
    axes.set_yticks(places, names)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_color(QUIET)
    axes.set_xlim(0, max(starts) * 1.26)
    axes.set_ylim(-0.7, max(len(bars) - 0.3, 2.3))
    axes.set_xlabel(f"peak memory allocated in tensors, worst rank [{unit}]", labelpad=6)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0.012, bottom + height),
        bbox_transform=figure.transFigure,
        ncols=7,
        columnspacing=1.1,
        handlelength=1.1,
        handletextpad=0.5,
        borderaxespad=0.2,
    )
    return figure


def _whole(name: str) -> str:
    """Keep a name on one line."""
    return cut(name, _LONGEST_NAME).replace(" ", "\u00a0")


def _share(bar: Breakdown) -> str:
    return f"{100 * bar.share:.0f}\u00a0%"
