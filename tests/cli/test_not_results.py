"""What is no results: a sentence that says what it is, and what to name instead."""

import pytest
from click.testing import CliRunner

from bench.cli import main
from bench.record.parquet_file import encode_table
from bench.record.schema import schema
from tests.planted import config, launches, store

COMMANDS = ("show", "compare", "recommend", "plot", "report")


def run(*words):
    return CliRunner().invoke(main, list(map(str, words)), env={"COLUMNS": "120"})


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with a sweep file, its results and what people mistake for them."""
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        store(tmp_path / "results" / name, launches([config(1000), config(900, micro_batch_size=4)]))
    (tmp_path / "one.yaml").write_text("# Question: which?\nformat: 1\nname: one\naxes: {micro_batch_size: [4, 8]}\n")
    (tmp_path / "new.yaml").write_text("format: 1\nname: 'new-one'\n")
    (tmp_path / "other.yml").write_text("a: 1\n")
    (tmp_path / "results/one/table.csv").write_text("a,b\n1,2\n")
    (tmp_path / "notes.txt").write_text("text")
    (tmp_path / "empty").mkdir()
    (tmp_path / "results/one/logs").mkdir()
    return tmp_path


CASES = {
    "one.yaml": "is a sweep file; its results are in results/one. Name that folder.",
    "new.yaml": "its results will be in results/new-one once `bench sweep new.yaml` has run",
    "other.yml": "is a YAML file, not results",
    "results/one/table.csv": "only parquet is read. Name the folder results/one.",
    "notes.txt": "only parquet is read. Name a results folder or its results.parquet.",
    "results": "holds no results itself, but these folders do: results/one, results/two. Name one or more of them.",
    ".": "these folders do: results/one, results/two.",
    "empty": (
        "not a results folder: it has neither results.parquet nor journal.jsonl. "
        "`bench sweep` writes one under results/."
    ),
    "results/one/logs": "is part of the results folder results/one. Name that one.",
    "results/one/updates.parquet": "holds the updates of launches, not the launches",
    "nowhere": "no such file or folder",
}


@pytest.mark.parametrize("path", CASES)
@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_bad_input_with_the_way_out(here, command, path):
    """Exit 2, nothing on stdout, one line a person can act on."""
    result = run(command, path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{path}: " in result.stderr
    assert CASES[path] in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_results_without_a_row_say_that_nothing_has_ended_yet(here, command):
    """An empty table is no damage; only `show` has something to show of it."""
    path = here / "results.parquet"
    path.write_bytes(encode_table(schema().empty_table()))
    result = run(command, path)
    if command == "show":
        assert (result.exit_code, result.stdout) == (0, "no rows\n")
    else:
        assert (result.exit_code, result.stdout) == (2, "")
        assert ": no rows, as no launch has ended yet. Run the sweep first." in result.stderr


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("amp=fp32", "'amp_mode == fp32'"),
        ("amp_mode=bf16", "'amp_mode == bf16'"),
        ("amp_mode is bf16", "'amp_mode == bf16'"),
        ("seq_len => 128", "'seq_len >= 128'"),
        ("micro_batch_size <> 8", "'micro_batch_size != 8'"),
    ],
)
def test_a_condition_that_is_nearly_one_is_rewritten(here, text, meant):
    """The operator is explained, and the column that was meant is named."""
    result = run("show", "results/one", "--where", text)
    assert result.exit_code == 2
    assert f"Did you mean {meant}?" in result.stderr
    again = run("show", "results/one", "--where", meant.strip("'"), "--format", "json")
    assert again.exit_code == 0 or "no row matches --where" in again.stderr, "what is proposed is understood"


def test_a_condition_like_nothing_lists_the_operators(here):
    """No guess where nothing is near."""
    result = run("show", "results/one", "--where", "zzz=3")
    assert "OP one of == != <= >= < >" in result.stderr
    assert "mean" not in result.stderr
