"""Tables are readable at any width, and machine formats are exact."""

import csv
import io
import json
import math

import pytest
from rich.cells import cell_len

from bench.errors import BenchError
from bench.record.columns import COLUMNS
from bench.record.parquet_file import table_of_rows
from bench.record.schema import schema
from bench.report.table import render
from tests.data.make import FOLDER, golden_texts
from tests.strategies import failed_row, numbered, ok_row, quickstart_rows

GOLDEN = golden_texts()
MIB = 1024**2


def table(*rows):
    return table_of_rows(numbered(rows), schema())


@pytest.mark.parametrize("name", GOLDEN)
def test_the_whole_output_is_golden(name):
    """Complete text against tests/data; `python -m tests.data.make` writes it anew."""
    assert GOLDEN[name] == (FOLDER / name).read_text()


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width):
    """A narrow terminal gets fewer columns or shorter texts, never broken lines."""
    rows = [
        ok_row(model="gpt2-mini", seq_len=n, seed=n, lr=n / 7e5, optimizer_implementation="foreach") for n in (1, 2)
    ]
    rows += [ok_row(model="a-very-long-name-" * 6, reason="x"), failed_row("failed", "word " * 60, world_size=2)]
    lines = render(table(*rows), width=width).splitlines()
    assert max(map(cell_len, lines)) <= max(width, 50)


def test_what_had_no_room_is_said():
    """A column that a narrow terminal lost is named below the table."""
    assert "columns that did not fit: train loss" in render(table(*quickstart_rows()), width=38)


def test_flags_that_occur_are_explained_below_the_table():
    """Each once, none that does not occur; also where the column was asked for, or had no room."""
    rows = table(ok_row(flags=["drift", "spiky"]), ok_row(flags=["drift"]), ok_row(flags=[]))
    for options in ({}, {"columns": ["trial_id", "flags"]}, {"width": 50}):
        text = " ".join(render(rows, **options).split())
        assert text.count("drift: the last third of the timed part is slower or faster than the first third") == 1
        assert "spiky: updates far slower than the median" in text
        assert "clock_drop:" not in text
    assert "drift" not in render(rows, columns=["trial_id"])
    assert render(table(ok_row(flags=["of_a_newer_version"]))).count("of_a_newer_version") == 1


def test_only_axes_that_vary_have_a_column():
    """What all rows share stands once, above."""
    text = render(table(*(ok_row(amp_mode="bf16", seq_len=n) for n in (128, 256))))
    first, second = text.split("\n\n")[1].splitlines()[:2]
    assert (first.split()[0], second.split()[0]) == ("seq", "len")
    assert "amp" not in first
    assert "gpt2-mini, cpu, bf16, 1 rank, global batch 64, packed rows, corpus stdlib, adamw" in text


def test_memory_is_named_gib_or_mib_by_its_size():
    """268435456 bytes are 256 MiB, and 1.5 * 1024**3 are 1.5 GiB: the unit is the one computed."""
    text = " ".join(render(table(ok_row(peak_allocated_bytes=256 * MIB))).split())
    assert "MiB" in text
    assert " 256 " in text
    text = " ".join(render(table(ok_row(peak_allocated_bytes=1536 * MIB))).split())
    assert "GiB" in text
    assert " 1.50 " in text


def test_a_row_that_is_not_ok_shows_its_reason_instead_of_numbers():
    """A failure is told in words in its place, and its numbers are not shown."""
    text = render(table(ok_row(), failed_row("oom", "no memory", micro_batch_size=64, peak_allocated_bytes=77 * MIB)))
    line = next(line for line in text.splitlines() if "64 x" in line)
    assert line.endswith("oom: no memory")
    assert "77" not in line


def test_control_characters_never_reach_the_terminal():
    """Foreign text cannot move the cursor, colour the screen or break a line."""
    text = render(table(failed_row("failed", "bad\x1b[31m\nthing\r"), ok_row(model="\x07bell"), ok_row()), width=80)
    assert not {letter for letter in text if not letter.isprintable()} - {"\n"}


def test_flags_are_shown_when_there_are_any():
    """Doubt about a row is printed beside it."""
    assert "data_bound" in render(table(ok_row(flags=["data_bound"]), ok_row()))
    assert "flags" not in render(table(ok_row()))


def test_utilisation_is_shown_where_a_peak_is_known():
    """A CPU has no such column; a GPU's says what it is a share of."""
    text = render(table(ok_row(model_flops=1e12, peak_flops_per_s_bf16=1e12), ok_row()), width=100)
    assert " mfu " in text
    assert "mfu: model FLOP/s" in text
    assert "mfu" not in render(table(ok_row()), width=100)


def test_colour_only_where_asked():
    """Plain text has no escape codes; coloured text says the same."""
    plain = render(table(*quickstart_rows()), width=80)
    colored = render(table(*quickstart_rows()), width=80, color=True)
    assert "\x1b" not in plain
    assert "\x1b[" in colored


def test_empty_results_are_empty_in_every_format():
    """No rows is an answer, not an error."""
    empty = table()
    assert render(empty) == "no rows\n"
    assert json.loads(render(empty, "json")) == {"format": 1, "rows": []}
    assert render(empty, "csv", ["outcome"]) == "outcome\n"
    assert "outcome" in render(empty, "markdown", ["outcome"])
    assert "outcome" in render(empty, "latex", ["outcome"])


def strict(text):
    def refuse(name):
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


def test_json_is_strict_and_holds_every_column_in_base_units():
    """nan and infinity become null, as missing does; bytes and lists stay exact."""
    rows = [ok_row(final_train_loss=math.nan, peak_allocated_bytes=9007199254740993), ok_row(lr=math.inf, flags=["a"])]
    document = strict(render(table(*rows), "json"))
    assert document["format"] == 1
    assert [*document["rows"][0]] == [column.name for column in COLUMNS]
    assert document["rows"][0]["final_train_loss"] is None
    assert document["rows"][0]["peak_allocated_bytes"] == 9007199254740993
    assert document["rows"][1]["lr"] is None
    assert document["rows"][1]["flags"] == ["a"]


def test_csv_reads_back_exactly():
    """Integers are whole, missing is empty, no separators, no scaling."""
    rows = [ok_row(peak_allocated_bytes=9007199254740993, reason='a "quoted", text'), failed_row()]
    read = list(csv.DictReader(io.StringIO(render(table(*rows), "csv"))))
    assert read[0]["peak_allocated_bytes"] == "9007199254740993"
    assert read[0]["reason"] == 'a "quoted", text'
    assert (read[1]["peak_allocated_bytes"], read[1]["activation_checkpointing"]) == ("", "false")


def test_documents_escape_their_own_syntax():
    """A pipe does not split a Markdown cell, and LaTeX's special letters print."""
    rows = [failed_row("failed", "a|b & 100% of $x_1$"), ok_row()]
    assert "a\\|b" in render(table(*rows), "markdown")
    assert r"\& 100\% of \$x\_1\$" in render(table(*rows), "latex")


def test_chosen_columns_are_shown_whatever_the_outcome():
    """Asked-for columns come in the order asked for, with their full names."""
    text = render(table(ok_row(), failed_row()), columns=["seed", "trial_id", "peak_allocated_bytes"])
    assert text.split("\n\n")[1].split()[:2] == ["peak_allocated_bytes", "seed"]
    assert "000000000001" in text


def test_an_unknown_column_is_refused_with_the_nearest():
    """A misspelt column is not an empty one."""
    with pytest.raises(BenchError, match="Did you mean final_train_loss"):
        render(table(ok_row()), columns=["final_loss"])


def test_rounds_are_told_apart():
    """Several launches of one trial show which round each was."""
    text = render(table(*(ok_row(round=number) for number in range(2))))
    assert "round" in text.split("\n\n")[1]


@pytest.mark.parametrize(
    ("gpu", "peak", "said"),
    [
        ("Tesla V100-SXM2-32GB", None, "mfu: none, since Tesla V100-SXM2-32GB has no bf16 units"),
        ("NVIDIA H20", None, "mfu: none, since NVIDIA H20 is not in the table of GPUs"),
        ("NVIDIA A100-SXM4-80GB", 1e12, "mfu: model FLOP/s / the GPU's dense bf16 peak"),
        (None, None, None),
    ],
)
def test_a_table_without_mfu_says_why(gpu, peak, said):
    """A V100 has no bf16 peak by nature, which an empty column would not tell."""
    text = render(table(ok_row(gpu_name=gpu, model_flops=1e12, peak_flops_per_s_bf16=peak)), width=200)
    assert ("mfu" in text) == (said is not None)
    assert said is None or said in text
