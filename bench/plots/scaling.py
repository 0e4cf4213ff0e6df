"""Draw speed against ranks, and what exchanging gradients costs."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from bench.decide.scaling import Exposed, ScalingCurve, ScalingPoint, exposed_communication, scaling_curves
from bench.plots.axes import rate_tick
from bench.plots.figure import NothingToDraw, framed
from bench.plots.style import COLORS, INK, MODE_COLORS, MODE_MARKERS, OTHER_COLOR, OTHER_MARKER, QUIET
from bench.report.points import Row, extra_axes, name_of
from bench.report.work_rate import short_unit, unit_words
from bench.units import format_rate, format_seconds

_MOST_CURVES, _MOST_BARS = 6, 12
_MARKERS = ("o", "s", "^", "D", "v", "P")
_CURVES_SHARE = 0.48
"""Share of the width that the curves take where bars stand beside them."""
_NAME_WIDTH = 0.0078
"""Width of one letter of a bar's name [share of the figure's width]."""


def draw(rows: Sequence[Row], _updates: Sequence[Row] = ()) -> Figure:
    """Draw scaling curves with their efficiency, and exposed communication where it was measured.

    Raises:
        NothingToDraw: There is neither a second world size at one global batch nor a pair of gradient_sync.
    """
    curves = sorted(scaling_curves(rows), key=lambda curve: -curve.points[-1].valid_tokens_per_s)
    exposed = sorted(exposed_communication(rows), key=lambda one: -one.share)
    if not curves and not exposed:
        raise NothingToDraw(
            "scaling: no global batch was measured at two world sizes, or with gradient_sync both last and every."
        )
    notes = []
    if curves:
        notes.append(
            "Strong scaling: the same global batch on more ranks, the fastest configuration of each. Percent: speed "
            "per rank relative to the fewest ranks."
        )
    if threads := _unequal_threads(curves):
        notes.append(threads)
    if len(curves) > _MOST_CURVES:
        notes.append(f"{len(curves) - _MOST_CURVES} slower curves are not drawn.")
    if exposed:
        notes.append(
            "Exposed communication: what one gradient exchange adds to an update, (sync every - sync last) / "
            "(accumulation\u00a0steps\u00a0-\u00a01)."
        )
    figure, room = framed(_title(curves, exposed), _second(exposed), rows, notes)
    left, bottom, width, height = room
    if curves:
        share = _CURVES_SHARE if exposed else 1.0
        axes = figure.add_axes((left, bottom, width * share, height + 0.03))
        _draw_curves(axes, curves[:_MOST_CURVES])
    if exposed:
        exposed = exposed[:_MOST_BARS]
        names = _names(exposed)
        start = left + _NAME_WIDTH * max(map(len, names)) + (width * _CURVES_SHARE + 0.02 if curves else 0.0)
        axes = figure.add_axes((start, bottom, left + width - start, height + 0.03))
        _draw_exposed(axes, exposed, names)
    return figure


def _unequal_threads(curves: Sequence[ScalingCurve]) -> str:
    """Say that ranks on a CPU had fewer threads the more of them there were; empty where each had as many."""
    threads: dict[int, set[int]] = {}
    for curve in curves:
        for point in curve.points:
            row = point.configuration.row
            if row.get("device") == "cpu" and row.get("threads_per_rank") is not None:
                threads.setdefault(point.world_size, set()).add(int(row["threads_per_rank"]))
    if len(set(map(frozenset, threads.values()))) < 2:
        return ""
    each = ", ".join(f"{' or '.join(map(str, sorted(threads[ranks])))} with {ranks}" for ranks in sorted(threads))
    return (
        f"On a CPU ranks share its cores. Threads per rank: {each} ranks. So more ranks are no more hardware here, and "
        "100\u00a0% is no goal: set cpu_threads_per_rank to give each rank as many."
    )


def _title(curves: Sequence[ScalingCurve], exposed: Sequence[Exposed]) -> str:
    if not curves:
        worst = exposed[0]
        return f"One gradient exchange adds at most {100 * worst.share:.0f}\u00a0% to an update"
    first, last = curves[0].points[0], curves[0].points[-1]
    gain = last.efficiency * last.world_size / first.world_size
    sizes = {curve.points[0].configuration.row.get("global_batch_size") for curve in curves}
    where = f" at global batch {first.configuration.row.get('global_batch_size')}" if len(sizes) > 1 else ""
    speed = format_rate(last.valid_tokens_per_s, unit_words([last.configuration.row]))
    return (
        f"{last.world_size} ranks give {gain:.2f} times the speed of {first.world_size}{where}: "
        f"{100 * last.efficiency:.0f}\u00a0% efficiency, {speed}"
    )


def _second(exposed: Sequence[Exposed]) -> str:
    known = [one for one in exposed if one.steps_to_hide is not None]
    if not known:
        return ""
    worst = known[0]
    return (
        f"One gradient exchange adds at most {format_seconds(worst.sync_s)}, {100 * worst.share:.0f}\u00a0% of the "
        f"update; below 5\u00a0% from about {worst.steps_to_hide} such accumulation steps on"
    )


def _draw_curves(axes: Axes, curves: Sequence[ScalingCurve]) -> None:
    ranks = sorted({point.world_size for curve in curves for point in curve.points})
    for curve, (color, marker) in zip(curves, _looks(curves), strict=True):
        across = [point.world_size for point in curve.points]
        speeds = [point.valid_tokens_per_s for point in curve.points]
        ideal = [speeds[0] * rank / across[0] for rank in across]
        axes.plot(across, ideal, color=color, linewidth=1.0, linestyle=(0, (3, 3)), alpha=0.6, zorder=2)
        axes.plot(
            across,
            speeds,
            color=color,
            linewidth=1.6,
            marker=marker,
            markersize=7.5,
            markeredgecolor="white",
            zorder=4,
            label=curve.name,
        )
    for point in curves[0].points[1:-1]:
        _write_efficiency(axes, point, (-6, 7), "right")
    _write_last(axes, [curve.points[-1] for curve in curves])
    axes.plot([], [], color=QUIET, linewidth=1.0, linestyle=(0, (3, 3)), label="perfect scaling")
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, [str(rank) for rank in ranks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(ranks[0] / 2**0.25, ranks[-1] * 2**0.55)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: rate_tick(value)))
    axes.set_xlabel("ranks", labelpad=6)
    drawn = [point.configuration.row for curve in curves for point in curve.points]
    axes.set_ylabel(f"{unit_words(drawn)}, all ranks [{short_unit(drawn)}/s]", labelpad=6)
    axes.legend(loc="best")


def _looks(curves: Sequence[ScalingCurve]) -> list[tuple[str, str]]:
    """Give colour and marker of each curve: those of its AMP mode, or of its place where several share a mode."""
    modes = [str(curve.points[0].configuration.row.get("amp_mode")) for curve in curves]
    if len(set(modes)) < len(modes):
        return list(zip(COLORS, _MARKERS, strict=True))[: len(curves)]
    return [(MODE_COLORS.get(mode, OTHER_COLOR), MODE_MARKERS.get(mode, OTHER_MARKER)) for mode in modes]


def _write_last(axes: Axes, points: Sequence[ScalingPoint]) -> None:
    """Write the efficiency at the end of every curve, one below the other where curves end close together."""
    top = max(point.valid_tokens_per_s for point in points)
    height = axes.get_window_extent().height * 72 / axes.figure.dpi / (1.05 * top)  # of one token/s [points]
    place = float("inf")
    for point in sorted(points, key=lambda point: -point.valid_tokens_per_s):
        natural = point.valid_tokens_per_s * height
        place = min(natural, place - 12)
        _write_efficiency(axes, point, (9, place - natural - 4), "left")


def _write_efficiency(axes: Axes, point: ScalingPoint, offset: tuple[float, float], align: str) -> None:
    axes.annotate(
        f"{100 * point.efficiency:.0f}\u00a0%",
        (point.world_size, point.valid_tokens_per_s),
        xytext=offset,
        textcoords="offset points",
        ha=align,
        fontsize=9,
        color=INK,
    )


def _names(exposed: Sequence[Exposed]) -> list[str]:
    extra = extra_axes([one.row for one in exposed])
    return [name_of(one.row, extra) for one in exposed]


def _draw_exposed(axes: Axes, exposed: Sequence[Exposed], names: Sequence[str]) -> None:
    places = range(len(exposed))[::-1]
    shares = [100 * one.share for one in exposed]
    colors = [MODE_COLORS.get(str(one.row.get("amp_mode")), OTHER_COLOR) for one in exposed]
    axes.barh(list(places), shares, color=colors, height=0.5, zorder=3)
    for place, one, share in zip(places, exposed, shares, strict=True):
        text = format_seconds(one.sync_s) if one.sync_s > 0 else "within noise"
        axes.annotate(
            text, (max(share, 0), place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8.5
        )
    axes.axvline(0, color=QUIET, linewidth=0.8)
    axes.set_yticks(list(places), names)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    low, high = min([0.0, *shares]), max([1.0, *shares])
    axes.set_xlim(low * 1.15, high * 1.3)
    axes.set_ylim(-0.6, max(len(exposed) - 0.4, 3.6))
    axes.set_xlabel("exposed communication [% of an update]", labelpad=6)
