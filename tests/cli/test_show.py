"""`bench show` puts data on stdout, messages on stderr, and says the way out."""

import json

import pytest
from click.testing import CliRunner

from bench.cli import main
from tests.data.make import FOLDER
from tests.strategies import quickstart_rows, write_results


@pytest.fixture
def folder(tmp_path):
    write_results(tmp_path / "quick", quickstart_rows())
    return tmp_path / "quick"


def run(*words, **environment):
    return CliRunner().invoke(main, ["show", *map(str, words)], env={"COLUMNS": "80", **environment})


@pytest.mark.parametrize("width", [80, 200])
def test_the_default_is_the_table_for_people(folder, width):
    """Complete output at two widths, colourless since stdout is no terminal."""
    result = run(folder, COLUMNS=str(width))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (FOLDER / f"show_{width}.txt").read_text()


def test_a_pipe_has_no_width(folder):
    """Without a terminal nothing is cut."""
    result = CliRunner().invoke(main, ["show", str(folder)], env={"COLUMNS": ""})
    assert "gpt2-mini, cpu, 1 rank, global batch 64, seq_len 128, packed rows, corpus stdlib, adamw\n" in result.stdout


def test_json_is_one_document_on_stdout(folder):
    """Filters and columns apply, in base units."""
    result = run(
        folder,
        "--where",
        "outcome == ok",
        "--where",
        "amp_mode == fp32",
        "--format",
        "json",
        "--columns",
        "micro_batch_size, timed_s",
    )
    document = json.loads(result.stdout)
    assert document["format"] == 1
    assert [row["micro_batch_size"] for row in document["rows"]] == [1, 4, 16]


def test_csv_matches_its_golden_file(folder):
    """Complete CSV of chosen columns."""
    columns = "trial_id,outcome,amp_mode,peak_allocated_bytes,flags,reason"
    assert run(folder, "--format", "csv", "--columns", columns).stdout == (FOLDER / "show.csv").read_text()


def test_condition_that_no_row_meets_is_refused_with_the_values_there_are(folder):
    """As by the other commands: a slip in a value is not taken for an answer."""
    result = run(folder, "--where", "micro_batch_size == 3")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no row matches --where 'micro_batch_size == 3'" in result.stderr
    assert "micro_batch_size: 1, 4, 16" in result.stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--where", "amp == bf16"], 2, "Did you mean amp_mode?"),
        (["--columns", "sweeep"], 2, "Did you mean sweep?"),
        (["--format", "xml"], 2, "'xml' is not one of"),
    ],
)
def test_a_mistake_is_told_on_stderr(folder, words, code, message):
    """Usage errors exit 2, with the nearest name, and leave stdout empty."""
    result = run(folder, *words)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr


def test_missing_and_damaged_results_have_their_exit_codes(folder, tmp_path):
    """Nothing there is bad input (2); a damaged file is a storage error (4)."""
    assert run(tmp_path / "nowhere").exit_code == 2
    (folder / "results.parquet").write_bytes((folder / "results.parquet").read_bytes()[:-20])
    result = run(folder)
    assert result.exit_code == 4
    assert "results.parquet: damaged" in result.stderr


def test_help_is_complete(tmp_path):
    """Imperative line, example, defaults and units."""
    text = run("--help").stdout
    assert "Show results as one table." in text
    assert "Example:\n    bench show results/quickstart --where" in text
    assert "[default: table]" in " ".join(text.split())
    assert "bytes, seconds, tokens" in " ".join(text.split())


def test_rows_of_several_results_name_theirs(folder, tmp_path):
    """In a column for people, in a field for programs; --where selects by it."""
    write_results(tmp_path / "later", [{**row, "started_utc": "2026-11-30T12:00:00Z"} for row in quickstart_rows()])
    lines = run(folder, tmp_path / "later", COLUMNS="120").stdout.splitlines()
    count = len(quickstart_rows())
    assert [sum(line.startswith(name) for line in lines) for name in ("quick  ", "later  ")] == [count, count]
    words = ["--format", "json", "--columns", "folder", "--where", "folder == later"]
    document = json.loads(run(folder, tmp_path / "later", *words).stdout)
    assert document["rows"] == [{"folder": "later"}] * count
    assert json.loads(run(folder, "--format", "json").stdout)["rows"][0]["folder"] == "quick"
