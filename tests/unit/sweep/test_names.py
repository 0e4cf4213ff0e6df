"""Names say what each value is, tell configurations apart, and are the same wherever they stand."""

from bench.record.columns import COLUMNS
from bench.record.config_columns import config_columns
from bench.report.configurations import configurations_of
from bench.report.problem import MANNER, PROBLEM
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.file import load_sweep
from bench.sweep.names import axis_columns, name_of, value_word
from tests.planted import config, launches

ROW = {"amp_mode": "fp32", "micro_batch_size": 16, "accumulation_steps": 1}


def test_values_say_what_they_are_without_a_heading():
    """fp32 arithmetic with bf16 weights cannot be read as bf16 arithmetic."""
    assert name_of({**ROW, "param_dtype": "bf16"}, ["param_dtype"]) == "fp32 16 x 1, bf16 weights"
    words = {
        ("tail", "keep"): "tail keep",
        ("rows", "packed"): "packed rows",
        ("lr", 3e-4): "lr 3e-4",
        ("lr", 0.1): "lr 0.1",
        ("weight_decay", 0.0): "weight decay 0",
        ("world_size", 1): "1 rank",
        ("world_size", 8): "8 ranks",
        ("seq_len", 2048): "seq len 2,048",
        ("schedule", "cosine"): "cosine schedule",
        ("optimizer_implementation", "fused"): "fused optimizer",
        ("gradient_sync", "every"): "sync every",
        ("activation_checkpointing", True): "checkpointing",
        ("activation_checkpointing", False): "",
        ("reentrant_checkpointing", True): "reentrant",
        ("reentrant_checkpointing", False): "",
        ("clip_norm", None): "no clipping",
        ("clip_norm", 1.0): "clip 1",
        ("sequences_per_epoch", None): "endless data",
        ("momentum", None): "",
        ("data_source", "corpus: stdlib"): "corpus: stdlib",
        ("model", "gpt2\nmini"): "gpt2 mini",
        ("cpu_threads_per_rank", 1): "1 thread per rank",
        ("a_new_column", "x"): "a new column x",
    }
    assert {key: value_word(*key) for key in words} == words


def test_close_numbers_stay_apart():
    """What tells two configurations apart is not rounded away."""
    values = (3e-4, 3.0001e-4, 1e-5, 0.1, 0.10001, 0.001, 1.0, 1.5)
    assert len({value_word("lr", value) for value in values}) == len(values)


def test_a_setting_that_may_be_null_tells_configurations_apart():
    """No clipping is a choice like any other; a momentum that another optimizer lacks is not."""
    rows = launches([config(1000, clip_norm=None), config(1000, clip_norm=1.0)])
    assert [one.name for one in configurations_of(rows)] == ["fp32 8 x 8, no clipping", "fp32 8 x 8, clip 1"]


def test_progress_lines_and_results_use_one_name(tmp_path):
    """What runs is called what the table of its result calls it."""
    path = tmp_path / "s.yaml"
    path.write_text(
        "format: 1\nname: s\nbase: {model: {preset: gpt2-nano}, global_batch_size: 64}\n"
        "axes: {data: [{rows: packed}, {rows: ragged}], optimizer.lr: [3.0e-4, 1.0e-3], param_dtype: [fp32, bf16], "
        "clip_norm: [null, 1.0], micro_batch_size: [4, 8]}\n"
    )
    trials = expand(load_sweep(path), MachineFacts(device="cpu", cuda_device_count=0))
    rows = launches([config(1000, **{**config_columns(t.config), "trial_id": t.trial_id}) for t in trials], rounds=1)
    in_results = {one.row["trial_id"]: set(one.name.split(", ")) for one in configurations_of(rows)}
    assert {trial.trial_id: set(trial.name().split(", ")) for trial in trials} == in_results
    assert len(set(map(frozenset, in_results.values()))) == len(trials)


def test_axes_of_sections_are_their_columns():
    """A field of a sweep file and the column that holds it have one word."""
    assert axis_columns((("data.tail", "drop"), ("model", {"preset": "gpt2-nano"}), ("schedule.total_updates", 9))) == {
        "tail": "drop",
        "model": "gpt2-nano",
        "schedule_total_updates": 9,
    }


def test_every_setting_is_either_what_is_trained_or_how():
    """A new setting must say which, or recommendations would rank what is no alternative."""
    settings = {column.name for column in COLUMNS if column.rule == "config"} - {"model_kind", "config_json"}
    assert sorted(PROBLEM + MANNER) == sorted(settings)
