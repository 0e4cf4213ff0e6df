"""Every figure draws what there is from the right numbers, and says what it cannot draw."""

import pytest

from bench.errors import BenchError
from bench.plots import KINDS
from bench.plots.axes import rate_tick
from bench.plots.draw import draw_plots
from bench.plots.energy import energies
from bench.plots.heat_map import draw as draw_heat_map
from bench.plots.heat_map import heat_map
from bench.plots.memory_breakdown import breakdowns
from bench.plots.scaling import draw as draw_scaling
from bench.plots.update_times import seconds_tick, traces_of
from bench.record.parquet_file import table_of_rows
from bench.record.schema import schema
from tests.planted import config, launches, losses
from tests.strategies import failed_row, numbered, ok_row, quickstart_rows

PARTS = {"parameter_bytes": 100, "gradient_bytes": 100, "optimizer_state_bytes": 200, "peak_allocated_bytes": 1000}


def grid():
    """Micro-batch 1, 2, 4 by accumulation 1, 2, 4, one of them out of memory."""
    return launches(
        [
            config(
                None if (micro, steps) == (4, 4) else 1000 * micro + steps,
                micro_batch_size=micro,
                accumulation_steps=steps,
                global_batch_size=micro * steps,
            )
            for micro in (1, 2, 4)
            for steps in (1, 2, 4)
        ],
        rounds=1,
        sd=0,
        drift=0,
    )


def test_the_heat_map_places_every_measured_cell_and_marks_failures():
    """Micro-batch across, accumulation steps up; an oom is a mark, what was not measured is empty."""
    data = heat_map(grid())
    assert (data.columns, data.rows, data.is_by_cut) == (("1", "2", "4"), ("1", "2", "4"), False)
    cells = {(cell.column, cell.row): cell for cell in data.cells}
    assert len(cells) == 9
    assert cells["2", "4"].speed == pytest.approx(2004)
    assert (cells["4", "4"].speed, cells["4", "4"].outcome) == (None, "oom")


def test_a_fixed_global_batch_is_drawn_by_mode_instead_of_a_diagonal():
    """Each micro-batch then has one accumulation count, so rows are modes and world sizes."""
    data = heat_map(numbered(quickstart_rows()))
    assert data.is_by_cut
    assert data.columns == ("1", "4", "16", "64")
    assert data.rows == ("fp32", "tf32", "bf16")


DIVIDED = {
    **PARTS,
    "buffer_bytes": 10,
    "gradient_at_peak_bytes": 0,
    "activation_bytes": 500,
    "ddp_bucket_bytes": 100,
    "temporary_bytes": 90,
    "peak_phase": "forward",
}


def test_the_breakdown_adds_up_to_the_peak():
    """Gradients are those that lived at the peak, buffers belong to the model."""
    (bar,) = breakdowns([ok_row(**DIVIDED)])
    assert list(bar.parts.values()) == [110, 0, 200, 500, 100, 90]
    assert (bar.total, bar.phase, round(bar.share, 2)) == (1000, "forward", 0.59)


@pytest.mark.parametrize("divided", [DIVIDED, PARTS])
def test_what_the_allocator_gave_beyond_what_was_asked_is_a_part_of_its_own(divided):
    """The whole bar is what was allocated; the other parts are what was requested."""
    (bar,) = breakdowns([ok_row(**divided, peak_requested_bytes=1000)])
    counted = {"peak_requested_bytes": 1000, "peak_allocated_bytes": 1040, "allocator_rounding_bytes": 40}
    (rounded,) = breakdowns([ok_row(**{**divided, **counted})])
    assert rounded.parts == {**bar.parts, "allocator rounding": 40}
    assert (bar.total, rounded.total) == (1000, 1040)


def test_a_peak_that_was_not_divided_has_one_rest():
    """It is the peak less the known parts; a row that lacks one of them is left out, not drawn as zero."""
    rows = numbered([ok_row(**PARTS), ok_row(**{**PARTS, "gradient_bytes": None}), failed_row()])
    (bar,) = breakdowns(rows)
    assert (bar.parts["activations and temporaries"], bar.total, bar.phase) == (600, 1000, "")
    (small,) = breakdowns([ok_row(**{**PARTS, "peak_allocated_bytes": 350})])
    assert small.parts["activations and temporaries"] == 0


def test_traces_hold_the_timed_updates_of_ok_launches():
    """Updates without a duration or under the witness, which slows them, and launches that failed, have no trace."""
    rows = launches([config(1000), config(None)], rounds=2)
    updates = [{**u, **{k: rows[0][k] for k in ("trial_id", "round", "attempt")}} for u in losses([5, 4, 3, 2])]
    updates[3] |= {"phase": "witness"}
    updates[0] |= {"phase": "first"}
    updates[1] |= {"seconds": None}
    (trace,) = traces_of(rows, updates)
    assert (trace.updates, trace.is_timed) == ((0, 2), (False, True))


def test_energy_is_null_without_a_counter():
    """A missing value is no bar of length zero."""
    rows = launches([config(1000), config(1000)], rounds=1)
    for row, joules in zip(rows, (0.5, None), strict=True):
        row["joules_per_valid_token"] = joules
    assert [joules for *_, joules in energies(rows)] == [0.5]


def scaled():
    return launches(
        [
            config(900 * ranks, world_size=ranks, micro_batch_size=4, gradient_sync=sync, **PARTS)
            for ranks in (1, 2)
            for sync in ("last", "every")
        ]
    )


@pytest.mark.slow
def test_every_kind_is_drawn_or_said(tmp_path):
    """PNG and SVG for each kind that has data; one sentence for each that has none."""
    rows = scaled()
    updates = [{**u, **{k: r[k] for k in ("trial_id", "round", "attempt")}} for r in rows for u in losses([5, 4])]
    paths, notes = draw_plots(table_of_rows(rows, schema()), updates, tmp_path)
    drawn = {path.stem for path in paths}
    assert drawn >= {"memory_throughput", "heat_map", "scaling", "memory_breakdown", "update_times"}
    assert len(paths) == 2 * len(drawn)
    said = [note.split(":")[0].replace(" ", "_") for note in notes]
    assert "energy" in said
    assert sorted([*drawn, *said]) == sorted(kind.replace("-", "_") for kind in KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ["one row", "equal", "200 configurations", "other alphabets", "hardly any fact"])
def test_no_shape_of_the_data_breaks_a_figure(kind, case, tmp_path):
    """Case 95: one row, equal values, many, names in any script, missing fields."""
    rows = {
        "one row": [ok_row(**PARTS)],
        "equal": [ok_row(micro_batch_size=n, **PARTS) for n in range(1, 6)],
        "200 configurations": [ok_row(micro_batch_size=n, timed_s=40 / n, **PARTS) for n in range(1, 201)],
        "other alphabets": [ok_row(model="\u732b $x^2$ \u043c", rows=f"\u732b{n}", **PARTS) for n in range(2)],
        "hardly any fact": [
            {"outcome": "ok", "valid_tokens_per_s": 1.0, "micro_batch_size": 1, "accumulation_steps": 1, **PARTS}
        ],
    }[case]
    paths, why_nothing = [], ""
    try:
        paths, _ = draw_plots(table_of_rows(numbered(rows), schema()), [], tmp_path, [kind])
    except BenchError as nothing:
        why_nothing = str(nothing)
    assert paths or why_nothing.startswith(f"{kind}: no ")
    assert paths or kind not in ("memory-throughput", "heat-map", "memory-breakdown")
    assert all(path.stat().st_size > 1000 for path in paths)


@pytest.mark.parametrize("rows", [[], [failed_row(), failed_row("hang")], [ok_row(valid_tokens=None)]])
def test_nothing_to_draw_is_said_for_each_kind(rows, tmp_path):
    """All failed, or no value: a sentence each, no file."""
    with pytest.raises(BenchError) as error:
        draw_plots(table_of_rows(numbered(rows), schema()), [], tmp_path / "plots")
    assert len(str(error.value).splitlines()) == len(KINDS)
    assert not (tmp_path / "plots").exists()


@pytest.mark.parametrize(("capacity", "drawn"), [(700 * 1024**2, 1), (80 * 1024**3, 0), (None, 0)])
def test_the_wall_of_the_device_is_drawn_where_it_is_near(capacity, drawn):
    """Right of it everything is out of memory; far away it would only waste room."""
    from matplotlib.figure import Figure

    from bench.plots.marks import draw_wall
    from bench.report.points import points_of

    rows = [ok_row(device="cuda", gpu_name="G", device_capacity_bytes=capacity)]
    axes = Figure().add_subplot()
    draw_wall(axes, points_of(rows), rows, 1024**2)
    assert len(axes.lines) == drawn
    assert not drawn or axes.get_xlim()[1] > 700


def test_ticks_are_short_and_exact():
    """20 ms, not 20.0 ms."""
    assert [seconds_tick(value) for value in (0, 0.02, 1.5, 2e-6)] == ["0", "20 ms", "1.5 s", "2 us"]


def test_ticks_of_rates_have_one_letter_each():
    """5M, not 5,000k."""
    assert [rate_tick(value) for value in (0, 500, 25_000, 999_000, 1_200_000)] == ["0", "500", "25k", "999k", "1.2M"]


def test_what_a_heat_map_leaves_out_is_counted():
    """Twenty micro-batches: the fourteen fastest, and how many not."""
    rows = launches([config(1000 + n, micro_batch_size=n, accumulation_steps=1) for n in range(1, 21)], rounds=1)
    drawn = heat_map(rows)
    assert (len(drawn.columns), drawn.left_out) == (14, 6)
    assert "1" not in drawn.columns


def test_a_cell_of_several_configurations_says_so_and_problems_are_no_choice():
    """What one cell hides is said below the map, and so is that several trainings are no alternatives."""
    rows = [ok_row(trial_id=f"{number:012x}", lr=lr) for number, lr in enumerate((1e-3, 3e-4))]
    assert heat_map(rows).is_crowded
    assert not heat_map(rows[:1]).is_crowded
    texts = " ".join(text.get_text() for text in draw_heat_map(rows).texts)
    assert "several configurations share a cell, the fastest" in texts
    assert "2 training problems in one figure, which differ in lr: compare within each only" in texts
    assert "2 training problems: compare within each only" in texts
    assert "Fastest" not in texts
    assert "training problems" not in " ".join(text.get_text() for text in draw_heat_map(rows[:1]).texts)


@pytest.mark.parametrize(("threads", "is_said"), [((2, 1), True), ((1, 1), False)])
def test_scaling_on_a_cpu_says_that_ranks_had_fewer_threads(threads: tuple[int, int], is_said: bool) -> None:
    """Two ranks with a thread each are no more hardware than one with two."""
    rows = [
        ok_row(round=number, world_size=ranks, threads_per_rank=of_each, trial_id=f"{ranks:012x}", timed_s=40.0 / ranks)
        for number in range(2)
        for ranks, of_each in zip((1, 2), threads, strict=True)
    ]
    figure = draw_scaling(rows)
    text = " ".join(piece.get_text().replace("\n", " ") for piece in figure.texts)
    assert ("Threads per rank: 2 with 1, 1 with 2 ranks." in text) is is_said
