"""Files in every state, through every command that reads them (cases 91, 93, 94 and 96)."""

import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from bench.cli import main
from tests.planted import config, launches, store

COMMANDS = ("show", "compare", "recommend", "plot", "report")
BIG = 9_007_199_254_740_993


@pytest.fixture
def folder(tmp_path):
    rows = launches(
        [
            config(1000, peak_allocated_bytes=BIG, final_train_loss=math.nan),
            config(900, micro_batch_size=4),
            config(None),
        ]
    )
    return store(tmp_path / "r", rows)


def run(command, *words):
    return CliRunner().invoke(main, [command, *map(str, words)], env={"COLUMNS": "200"})


@pytest.mark.parametrize("command", COMMANDS)
def test_damaged_and_foreign_files_are_named(folder, command, tmp_path):
    """Cut, emptied, or somebody else's: exit 4 with the path, and the file is left alone."""
    path = folder / "results.parquet"
    whole = path.read_bytes()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "foreign.parquet")
    for content in (whole[:-20], b"", (tmp_path / "foreign.parquet").read_bytes()):
        path.write_bytes(content)
        result = run(command, folder)
        assert (result.exit_code, str(path) in result.stderr) == (4, True)
        assert result.stdout == ""
        assert path.read_bytes() == content


@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_that_is_no_result_is_bad_input(command, tmp_path):
    """Exit 2, nothing on stdout."""
    result = run(command, tmp_path / "nowhere")
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize("command", ["show", "compare", "recommend"])
def test_json_is_strict_with_nan_and_exact_with_large_integers(folder, command):
    """A diverged loss is null; 2**53 + 1 bytes end in 3."""
    document = json.loads(run(command, folder, "--format", "json").stdout, parse_constant=pytest.fail)
    assert str(BIG) in json.dumps(document)


@pytest.mark.parametrize("command", ["show", "compare"])
def test_csv_keeps_integers_beside_missing_values(folder, command):
    """No 10.0, no lost digit."""
    text = run(command, folder, "--format", "csv").stdout
    assert f",{BIG}," in text
    assert "8.0" not in text


@pytest.mark.parametrize("command", ["show", "compare", "recommend"])
def test_an_older_file_with_fewer_columns_is_read(folder, command):
    """What it lacks is missing, in rows of the newer file beside it too."""
    path = folder / "results.parquet"
    table = pq.read_table(path)
    from bench.record.parquet_file import encode_table

    older = table.drop_columns(["proof", "proof_error", "validation_loss"])
    path.write_bytes(encode_table(older))
    result = run(command, folder)
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_copied_file_counts_once_in_a_pool_and_is_refused_beside_its_original(folder, tmp_path):
    """Both hold the same launches: three rounds, not six."""
    copy = tmp_path / "copy.parquet"
    copy.write_bytes((folder / "results.parquet").read_bytes())
    document = json.loads(run("recommend", folder, copy, "--pool", "--format", "json").stdout)
    assert document["choice"]["rounds"] == 3
    result = run("recommend", folder, copy)
    assert (result.exit_code, "count each launch once with --pool" in result.stderr) == (2, True)
