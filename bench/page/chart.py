"""Make the interactive scatter of the page: memory against throughput, with the frontier. Needs the extra [report]."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.plots.style import INK, MODE_COLORS, OTHER_COLOR, QUIET
from bench.report.frontier import pareto_frontier
from bench.units import byte_unit

_LOG_FROM = 20.0
_FOLDER_SHAPES = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down")
_SHAPES = {"fp32": "circle", "tf32": "square", "bf16": "triangle-up", "fp16": "diamond"}


@dataclass(frozen=True)
class ChartPoint:
    """Hold one configuration as the chart shows it."""

    id: str
    """Id of its row in the table."""
    name: str
    """Its name."""
    mode: str
    """AMP mode, which gives colour and shape."""
    memory_bytes: float
    """Peak allocated bytes, worst rank."""
    speed: float
    """valid_tokens_per_s, units_per_s where the unit is no token, all ranks."""
    unit: str = "valid tokens"
    """What the speed counts, in words."""
    problem: int = 0
    """Number of its training problem: each has a frontier of its own."""
    folder: str = ""
    """Results folder it is from: of several, each has a shape of its own."""


def chart_script() -> str | None:
    """Give the JavaScript that draws charts without a network; None without the extra [report]."""
    try:
        import altair  # noqa: F401 - both are needed
        import vl_convert  # noqa: F401
    except ImportError:
        return None
    return _bundle()


@functools.cache
def _bundle() -> str:
    """Bundle Vega, which takes a second."""
    import vl_convert

    bundle: Any = vl_convert.javascript_bundle  # its stub asks for arguments that have defaults
    return str(bundle())


def chart_spec(points: Sequence[ChartPoint]) -> dict[str, Any]:
    """Give the Vega-Lite chart of these points, at least one; the page sets its parameter `selected_id`."""
    import altair as alt

    largest = max(point.memory_bytes for point in points)
    unit, size = byte_unit(largest)
    on_frontier = {
        same[i].id
        for number in {point.problem for point in points}
        for same in [[point for point in points if point.problem == number]]
        for i in pareto_frontier([(point.memory_bytes, point.speed) for point in same])
    }
    values = [
        {
            "id": point.id,
            "name": point.name,
            "mode": point.mode,
            "memory": point.memory_bytes / size,
            "speed": point.speed,
            "problem": point.problem,
            "folder": point.folder,
            "frontier": "on the Pareto frontier" if point.id in on_frontier else "below it: another is better at both",
        }
        for point in points
    ]
    modes = [*(mode for mode in MODE_COLORS if any(p.mode == mode for p in points))]
    modes += sorted({point.mode for point in points} - set(modes))
    across = alt.X(
        "memory:Q",
        title=f"peak memory, worst rank [{unit}]",
        axis=alt.Axis(format="~s", tickCount=7),
        scale=_scale(alt, [point.memory_bytes / size for point in points]),
    )
    up = alt.Y(
        "speed:Q",
        title=f"{points[0].unit}, all ranks [1/s]"
        if points[0].unit != "valid tokens"
        else "valid tokens, all ranks [tokens/s]",
        axis=alt.Axis(format="~s", tickCount=6),
        scale=_scale(alt, [point.speed for point in points]),
    )
    selected = alt.param(name="selected_id", value="")
    by_mode = alt.selection_point(name="mode_choice", fields=["mode"], bind="legend")
    color = alt.Color(
        "mode:N",
        title="AMP mode",
        sort=modes,
        scale=alt.Scale(domain=modes, range=[MODE_COLORS.get(mode, OTHER_COLOR) for mode in modes]),
    )
    shape = alt.Shape(
        "mode:N",
        title="AMP mode",
        sort=modes,
        scale=alt.Scale(domain=modes, range=[_SHAPES.get(m, "cross") for m in modes]),
    )
    folders = list(dict.fromkeys(point.folder for point in points))
    if len(folders) > 1:
        shapes = [_FOLDER_SHAPES[at % len(_FOLDER_SHAPES)] for at in range(len(folders))]
        shape = alt.Shape("folder:N", title="folder", sort=folders, scale=alt.Scale(domain=folders, range=shapes))
    is_selected, is_on = "datum.id === selected_id", "datum.frontier === 'on the Pareto frontier'"
    base = alt.Chart(alt.InlineData(values=values, name="configurations"))
    line = (
        base.transform_filter(is_on)
        .mark_line(interpolate="step-after", color=QUIET, strokeWidth=1.2)
        .encode(x=across, y=up, order=alt.Order("memory:Q"), detail="problem:N")
    )
    marks = (
        base.mark_point(filled=True, cursor="pointer")
        .encode(
            x=across,
            y=up,
            color=color,
            shape=shape,
            size=alt.condition(is_selected, alt.value(420), alt.value(150)),
            stroke=alt.condition(f"{is_selected} || {is_on}", alt.value(INK), alt.value("white")),
            strokeWidth=alt.condition(is_selected, alt.value(2.6), alt.value(1.2)),
            opacity=alt.condition(by_mode, alt.value(1.0), alt.value(0.12)),
            tooltip=[
                alt.Tooltip("name:N", title="configuration"),
                alt.Tooltip("speed:Q", title=f"{points[0].unit}/s", format=",.4~g"),
                alt.Tooltip("memory:Q", title=f"peak memory [{unit}]", format=",.4~g"),
                alt.Tooltip("frontier:N", title="status"),
            ],
        )
        .add_params(selected, by_mode)
    )
    chart = alt.layer(line, marks).properties(
        width="container", height=360, autosize=alt.AutoSizeParams(type="fit", contains="padding")
    )
    spec: dict[str, Any] = (
        chart.configure_view(stroke=None)
        .configure_axis(
            gridColor="#eaeef2", labelColor=INK, labelFontSize=12, titleFontSize=13, titleFontWeight="normal"
        )
        .configure_legend(
            orient="top", titleOrient="left", labelFontSize=13, titleFontSize=13, titleFontWeight="normal"
        )
        .to_dict()
    )
    for index, layer in enumerate(spec["layer"]):
        layer["name"] = f"layer_{index}"  # altair counts names over the process; ours are the same every time
    for param in spec.get("params", []):
        if "views" in param:
            param["views"] = ["layer_1"]
    return spec


def _scale(alt: Any, values: Sequence[float]) -> Any:
    """Choose a logarithmic axis where values span a factor of 20, else a linear one that need not hold zero."""
    if max(values) > _LOG_FROM * min(values):
        return alt.Scale(type="log", nice=False, padding=24)
    return alt.Scale(zero=False, padding=24)
