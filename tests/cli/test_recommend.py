"""`bench recommend` answers with a configuration, what it costs, and how to reproduce it."""

import json

import pytest
from click.testing import CliRunner

from bench.cli import main
from bench.record.config_columns import config_columns
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.file import load_sweep
from tests.planted import PROVEN, config, launches, store


def run(*words):
    return CliRunner().invoke(main, ["recommend", *map(str, words)], env={"COLUMNS": "100"})


@pytest.fixture
def folder(tmp_path):
    rows = launches(
        [config(1000, **PROVEN), config(1300, micro_batch_size=16, **PROVEN), config(None, micro_batch_size=64)]
    )
    return store(tmp_path / "r", rows)


def test_the_answer_is_text_on_stdout(folder):
    """What to run first; then the cost, the runner-up, why not the others, and how to reproduce it."""
    result = run(folder, "--run-tokens", "3.6e9", "--price-per-gpu-hour", "2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Run fp32, micro-batch 16 x 4 accumulation steps, 1 rank\n")
    for words in (
        "95 % interval",
        "3.6 billion valid tokens take",
        "at 2 per rank-hour",
        "Runner-up",
        "oom: out of memory",
    ):
        assert words in result.stdout
    assert "torchrun --standalone --nproc-per-node 1" in result.stdout


def test_what_is_not_proven_competes_only_when_accepted(tmp_path):
    """The slower one is proven; --accept-unproven takes the faster one, and the first line says what it is."""
    fast = {**PROVEN, "proof": None}
    folder = store(tmp_path / "r", launches([config(1000, **PROVEN), config(1300, micro_batch_size=16, **fast)]))
    assert run(folder).stdout.startswith("Run fp32, micro-batch 8 x 8 accumulation steps, 1 rank\n")
    first, second, *_ = run(folder, "--accept-unproven").stdout.splitlines()
    assert f"{first} {second.strip()}" == (
        "Run fp32, micro-batch 16 x 4 accumulation steps, 1 rank, but it is not proven: no accumulation proof was run"
    )


def test_json_is_one_object(folder):
    """For scripts."""
    document = json.loads(run(folder, "--format", "json").stdout)
    assert document["format"] == 1
    assert document["choice"]["config"]["micro_batch_size"] == 16
    assert document["projection"]["run_tokens"] == 1_000_000_000
    assert {other["standing"] for other in document["others"]} == {"slower", "out"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--global-batch-size", "63"], "no row has a global batch of 63"),
        (["--run-tokens", "0"], "less than 1"),
        (["--run-tokens", "1.5"], "not a whole number"),
        (["--run-tokens", "many"], "not a number"),
        (["--run-tokens", "inf"], "not a number"),
        (["--run-tokens", "1" + 400 * "0"], "too large"),
        (["--price-per-gpu-hour", "nan"], "not a finite number"),
        (["--price-per-gpu-hour", "inf"], "not a finite number"),
        (["--headroom", "nan"], "not a finite number"),
        (["--headroom", "1"], "not in the range"),
        (["--where", "outcome == oom"], "nothing to recommend"),
    ],
)
def test_a_question_without_an_answer_exits_2(folder, words, said):
    """Usage or no candidate: exit 2 with the reason, nothing on stdout."""
    result = run(folder, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_the_sweep_file_it_prints_is_the_choice(tmp_path):
    """Written to a file and expanded, the lines give the same trial."""
    path = tmp_path / "s.yaml"
    path.write_text(
        "format: 1\nname: s\nbase: {model: {preset: gpt2-nano}, data: {corpus: stdlib, rows: ragged}, "
        "global_batch_size: 64, amp_mode: bf16, optimizer: {name: sgd, lr: 0.1, weight_decay: 0.0}, world_size: 2}\n"
        "axes: {micro_batch_size: [4]}\n"
    )
    facts = MachineFacts(device="cpu", cuda_device_count=0)
    (trial,) = expand(load_sweep(path), facts)
    columns = config_columns(trial.config)
    folder = store(tmp_path / "r", launches([config(1000, **{**columns, "trial_id": trial.trial_id})]))
    text = run(folder).stdout
    lines = text.split("Sweep file to measure it again\n")[1].split("\n\n")[0]
    (tmp_path / "again.yaml").write_text("".join(f"{line[2:]}\n" for line in lines.splitlines()))
    (again,) = expand(load_sweep(tmp_path / "again.yaml"), facts)
    assert again.trial_id == trial.trial_id


def test_help_is_complete():
    """Imperative line, example, defaults and units."""
    text = run("--help").stdout
    assert "Recommend the configuration for a long run." in text
    assert "Example:\n    bench recommend results/a100-gpt2-124m" in text
    assert "[default: 1e9]" in text
    assert "[hours, GPU-hours" in " ".join(text.split())


def test_results_side_by_side_are_candidates_of_their_own(tmp_path):
    """Named by their result, never pooled unasked; what is not side by side is no tie."""
    two = [config(1000, **PROVEN), config(1300, micro_batch_size=16, **PROVEN)]
    before = store(tmp_path / "before", launches(two, drift=0.001))
    later = [row | {"started_utc": "2026-12-01T00:00:00Z"} for row in launches(two, drift=0.001, seed=4)]
    after = store(tmp_path / "after", later)
    text = run(before, after).stdout
    first, other = ("before", "after") if "1 rank, in before" in text else ("after", "before")
    assert text.startswith(f"Run fp32, micro-batch 16 x 4 accumulation steps, 1 rank, in {first}\n")
    assert f"fp32 16 x 4, in {other}" in text.split("Not settled after 3 rounds")[1]
    assert "2 of the others are in another result" in " ".join(text.split())
    assert "not measured in the same rounds" not in " ".join(text.split())
    document = json.loads(run(before, after, "--format", "json").stdout)
    assert (document["choice"]["config"]["folder"], document["choice"]["rounds"]) == (first, 3)
    pooled = json.loads(run(before, after, "--pool", "--format", "json").stdout)
    assert (pooled["choice"]["config"]["folder"], pooled["choice"]["rounds"]) == ("before + after", 6)
