"""Columns of mixed types, a run that diverges, and results of a sweep that grew (cases 92, 94 and 96)."""

import json
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from bench.cli import main
from bench.errors import SweepFileError
from bench.record.parquet_file import encode_table, table_of_rows
from bench.record.schema import schema
from bench.record.store import read_table
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.file import load_sweep
from tests.patience import PATIENCE_S
from tests.planted import config, launches, store


def load(folder, axes):
    path = folder / "s.yaml"
    path.write_text(f"format: 1\nname: s\nbase: {{global_batch_size: 8}}\naxes: {axes}\n")
    return load_sweep(path)


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ("{micro_batch_size: [8, 'auto']}", "is text, not a whole number"),
        ("{micro_batch_size: [1, '2']}", "Remove the quotes: 2"),
        ("{seq_len: [128, null]}", "is empty"),
    ],
)
def test_an_axis_of_mixed_types_is_refused_before_anything_runs(tmp_path, axes, said):
    """Not at the end of the sweep, when the column is written."""
    with pytest.raises(SweepFileError) as error:
        load(tmp_path, axes)
    assert len(error.value.faults) == 1
    assert said in str(error.value)


def test_null_beside_numbers_is_a_value_of_its_own(tmp_path):
    """[null, 2] is no mixed column: both run, both are named, both are read back exactly."""
    trials = expand(load(tmp_path, "{cpu_threads_per_rank: [null, 2]}"), MachineFacts("cpu", 0))
    rows = launches(
        [
            config(1000, trial_id=trial.trial_id, cpu_threads_per_rank=trial.config.cpu_threads_per_rank)
            for trial in trials
        ]
    )
    folder = store(tmp_path / "r", rows)
    result = CliRunner().invoke(main, ["recommend", str(folder), "--format", "json"])
    document = json.loads(result.stdout)
    names = {document["choice"]["name"], *(one["name"] for one in document["ties"])}
    assert names == {"fp32 8 x 8, default threads", "fp32 8 x 8, 2 threads per rank"}
    assert read_table(folder / "results.parquet").column("cpu_threads_per_rank").to_pylist() == [None] * 3 + [2] * 3


@pytest.mark.slow
def test_a_run_that_diverges_is_strict_json_with_its_reason(tmp_path):
    """A learning rate of 1e9: null where there is no number, the reason beside it, and exit codes that say so."""
    sweep = tmp_path / "s.yaml"
    sweep.write_text(
        "format: 1\nname: s\nbase: {device: cpu, model: {preset: gpt2-nano}, seq_len: 16, global_batch_size: 4, "
        "clip_norm: null, optimizer: {name: sgd, lr: 1.0e+9, weight_decay: 0.0}}\naxes: {micro_batch_size: [4]}\n"
        "measure: {warmup_updates: 1, updates: 4, rounds: 1, quality_updates: 3}\n"
    )
    command = [sys.executable, "-m", "bench.cli", "sweep", str(sweep), "--out", str(tmp_path / "r"), "--no-plot"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert "no recommendation: nothing to recommend" in done.stdout
    shown = CliRunner().invoke(main, ["show", str(tmp_path / "r"), "--format", "json"])
    (row,) = json.loads(shown.stdout, parse_constant=pytest.fail)["rows"]
    assert (row["outcome"], row["final_train_loss"], row["valid_tokens_per_s"]) == ("invalid", None, None)
    assert re.search(r"the loss of update \d is (nan|inf)", row["reason"])


def test_results_with_and_without_a_column_are_read_together_and_neither_is_changed(tmp_path):
    """An older file beside a newer one: what it lacks is missing, nothing is overwritten."""
    new = store(tmp_path / "new", launches([config(1000, proof="PASS")]))
    table = table_of_rows(launches([config(2000, micro_batch_size=4)]), schema()).drop_columns(["proof"])
    old = tmp_path / "old.parquet"
    old.write_bytes(encode_table(table))
    before = [(new / "results.parquet").read_bytes(), old.read_bytes()]
    result = CliRunner().invoke(main, ["show", str(new), str(old), "--format", "json", "--columns", "proof"])
    assert [row["proof"] for row in json.loads(result.stdout)["rows"]] == ["PASS"] * 3 + [None] * 3
    assert [(new / "results.parquet").read_bytes(), old.read_bytes()] == before
