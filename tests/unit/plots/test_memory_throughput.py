"""The figure says what was found, and draws whatever there is."""

import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from bench.errors import BenchError
from bench.plots.captions import finding, footnotes, second_finding
from bench.plots.draw import draw_plots
from bench.record.parquet_file import table_of_rows
from bench.record.schema import schema
from bench.report.points import points_of
from tests.strategies import failed_row, numbered, ok_row, quickstart_rows

MIB = 1024**2


def draw(rows, folder):
    return draw_plots(table_of_rows(numbered(rows), schema()), (), folder, ["memory-throughput"])[0]


@pytest.mark.slow
def test_a_figure_is_two_files_that_are_the_same_every_time(tmp_path):
    """PNG and SVG of the same rows have the same bytes, so that a committed figure changes only with its data."""
    first = draw(quickstart_rows(), tmp_path / "a")
    assert [path.name for path in first] == ["memory_throughput.png", "memory_throughput.svg"]
    assert first[0].read_bytes().startswith(b"\x89PNG")
    assert ElementTree.fromstring(first[1].read_bytes()).tag.endswith("svg")
    second = draw(quickstart_rows(), tmp_path / "b")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


SPREAD = [
    ok_row(micro_batch_size=2**n, timed_s=40 / 4.0**n, peak_allocated_bytes=3 * MIB * 4**n, accumulation_steps=1)
    for n in range(6)
]
QUICK = ("one row", "other alphabets and dollars")
HARD_CASES = {
    "one row": [ok_row()],
    "equal points": [ok_row(micro_batch_size=n) for n in range(1, 6)],
    "decades": SPREAD,
    "other alphabets and dollars": [
        ok_row(model="\u732b $x^2$ \u043c\u043e\u0434\u0435\u043b\u044c", micro_batch_size=n) for n in (1, 2)
    ],
    "long names": [ok_row(model="m" * 300, optimizer=f"{'o' * 200}{n}", timed_s=n) for n in (1.0, 2.0)],
    "unknown mode": [ok_row(amp_mode="fp8"), ok_row(amp_mode="bf16")],
    "many": [ok_row(micro_batch_size=n, timed_s=40 / n, peak_allocated_bytes=n * MIB) for n in range(1, 201)],
    "many failures": [ok_row(), *(failed_row("oom", micro_batch_size=n) for n in range(99))],
    "hardly any fact": [{"outcome": "ok", "valid_tokens_per_s": 1.0, "peak_allocated_bytes": 1}],
}


@pytest.mark.parametrize("case", [pytest.param(c, marks=[] if c in QUICK else [pytest.mark.slow]) for c in HARD_CASES])
def test_it_draws_what_there_is(case, tmp_path):
    """No shape of the data breaks the figure, and no warning escapes."""
    assert all(path.stat().st_size > 1000 for path in draw(HARD_CASES[case], tmp_path))


@pytest.mark.parametrize("rows", [[], [failed_row(), failed_row("hang")], [ok_row(peak_allocated_bytes=None)]])
def test_nothing_to_draw_is_said_and_nothing_is_written(rows, tmp_path):
    """All failed, or no memory column: a sentence, not a zero-size array or an empty figure."""
    with pytest.raises(BenchError, match="memory-throughput: no row is ok"):
        draw(rows, tmp_path / "plots")
    assert list(tmp_path.iterdir()) == []


def test_the_title_states_the_finding():
    """One sentence: which, how fast, in what memory; and what half the memory gives."""
    points = points_of(
        numbered(
            [
                ok_row(amp_mode="bf16", micro_batch_size=8, timed_s=14.6, peak_allocated_bytes=310 * MIB),
                ok_row(amp_mode="bf16", micro_batch_size=2, timed_s=20.0, peak_allocated_bytes=100 * MIB),
            ]
        )
    )
    frontier = [points[1], points[0]]
    title = finding(frontier, 2).replace("\u00a0", " ")
    assert title == "bf16, micro-batch 8: fastest at 11.2k valid tokens/s using 310 MiB"
    more = second_finding(frontier).replace("\u00a0", " ")
    assert more == "In half that memory or less: bf16, micro-batch 2 gives 73 % of the speed using 100 MiB"
    assert second_finding(frontier[1:]) == ""


def test_what_is_not_drawn_is_listed():
    """Trials that ran out of memory are part of the answer."""
    rows = [ok_row(), *(failed_row("oom", micro_batch_size=n) for n in range(6))]
    assert "Not drawn, oom (6): fp32 0 \u00d7 8; fp32 1 \u00d7 8;" in footnotes(rows, points_of(rows))[1].replace(
        "\u00a0", " "
    )
    assert footnotes(rows, points_of(rows))[1].endswith("and 2 more.")


@pytest.mark.slow
def test_it_needs_no_display_and_no_users_settings(tmp_path):
    """The figure is drawn on a server, whatever MPLBACKEND and matplotlibrc say."""
    (tmp_path / "matplotlibrc").write_text("axes.facecolor: black\nfont.size: 40\n")
    code = (
        "from pathlib import Path; from tests.unit.plots.test_memory_throughput import draw;"
        "from tests.strategies import quickstart_rows;"
        f"draw(quickstart_rows(), Path({str(tmp_path / 'out')!r}))"
    )
    environment = {k: v for k, v in os.environ.items() if k != "DISPLAY"} | {
        "MATPLOTLIBRC": str(tmp_path),
    }
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    draw(quickstart_rows(), tmp_path / "here")
    assert (tmp_path / "out/memory_throughput.svg").read_bytes() == (
        tmp_path / "here/memory_throughput.svg"
    ).read_bytes()
