"""Draw what the peak memory consists of, as stacked bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from bench.errors import BenchError
from bench.report.figure import framed
from bench.report.plot_style import INK, QUIET
from bench.report.points import Row, extra_axes, name_of
from bench.units import byte_unit

# Okabe and Ito, in an order in which neighbours differ in lightness as well.
_PARTS = (
    ("parameters", "#0072B2"),
    ("gradients", "#56B4E9"),
    ("optimizer state", "#009E73"),
    ("activations and temporaries", "#E69F00"),
)
_MOST_BARS = 18


@dataclass(frozen=True)
class Breakdown:
    """Hold the parts of one trial's peak, worst rank [bytes]."""

    name: str
    """Name of the configuration."""
    parts: tuple[int, int, int, int]
    """Parameters, gradients, optimizer state, and the rest of the peak."""
    accumulation_steps: int
    """Micro-batches per update."""

    @property
    def total(self) -> int:
        """Give the whole bar: the peak, or the three known parts where they are more."""
        return sum(self.parts)


def breakdowns(rows: Sequence[Row]) -> list[Breakdown]:
    """Divide the peaks of all trials that know their parts; largest launch of each trial, in order of appearance.

    The rest is what the peak holds besides: at A = 1 the peak comes before all gradients exist, so that the rest is
    counted too small there, and 0 where the known parts exceed the peak.
    """
    largest: dict[str, Row] = {}
    for row in rows:
        known = [row.get(name) for name in ("parameter_bytes", "gradient_bytes", "optimizer_state_bytes")]
        if row["outcome"] != "ok" or row.get("peak_allocated_bytes") is None or None in known:
            continue
        before = largest.get(row["trial_id"])
        if before is None or row["peak_allocated_bytes"] > before["peak_allocated_bytes"]:
            largest[row["trial_id"]] = row
    extra = extra_axes(list(largest.values()))
    return [_breakdown(row, extra) for row in largest.values()]


def _breakdown(row: Row, extra: Sequence[str]) -> Breakdown:
    known = (row["parameter_bytes"], row["gradient_bytes"], row["optimizer_state_bytes"])
    rest = max(0, row["peak_allocated_bytes"] - sum(known))
    return Breakdown(name_of(row, extra), (*known, rest), row.get("accumulation_steps") or 0)


def draw_breakdown(rows: Sequence[Row]) -> Figure:
    """Draw one stacked bar per trial.

    Raises:
        BenchError: No row knows its peak and its parts.
    """
    bars = breakdowns(rows)
    if not bars:
        raise BenchError("memory breakdown: no row has a peak and the bytes of parameters, gradients and state.")
    most, least = (choose(bars, key=lambda bar: bar.parts[3] / max(1, bar.total)) for choose in (max, min))
    title = f"Activations and temporaries are {_share(most)} of the peak at {_whole(most.name)}"
    if len(bars) > 1:
        title += f", {_share(least)} at {_whole(least.name)}"
    notes = ["Activations and temporaries: the peak less the other three."]
    if any(bar.accumulation_steps == 1 for bar in bars):
        notes[0] += (
            " At one accumulation step the peak may come before all gradients exist; then this part is too small."
        )
    if len(bars) > _MOST_BARS:
        notes.append(f"The {_MOST_BARS} largest of {len(bars)} are drawn.")
        bars = sorted(bars, key=lambda bar: -bar.total)[:_MOST_BARS]
    figure, (left, bottom, width, height) = framed(title, "", rows, notes)
    longest = max(len(bar.name) for bar in bars)
    shift = min(0.3, 0.0088 * longest)
    axes = figure.add_axes((left - 0.07 + shift, bottom, width + 0.05 - shift, height))
    unit, size = byte_unit(max(bar.total for bar in bars))
    places = list(range(len(bars)))[::-1]
    starts = [0.0] * len(bars)
    for index, (part, color) in enumerate(_PARTS):
        widths = [bar.parts[index] / size for bar in bars]
        axes.barh(
            places, widths, left=starts, color=color, height=0.7, label=part, zorder=3, edgecolor="white", linewidth=0.6
        )
        starts = [start + width_ for start, width_ in zip(starts, widths, strict=True)]
    for place, bar, end in zip(places, bars, starts, strict=True):
        axes.annotate(
            f"{end:.3g}", (end, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8.5, color=INK
        )
        del bar
    axes.set_yticks(places, [bar.name for bar in bars])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_color(QUIET)
    axes.set_xlim(0, max(starts) * 1.08)
    axes.set_ylim(-0.7, max(len(bars) - 0.3, 2.3))
    axes.set_xlabel(f"peak memory allocated in tensors, worst rank [{unit}]", labelpad=6)
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.012, 1.0), ncols=4, columnspacing=1.4, handlelength=1.2, borderaxespad=0.2
    )
    return figure


def _whole(name: str) -> str:
    """Keep a name on one line."""
    return name.replace(" ", "\u00a0")


def _share(bar: Breakdown) -> str:
    return f"{100 * bar.parts[3] / max(1, bar.total):.0f}\u00a0%"
