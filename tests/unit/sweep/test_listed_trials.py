"""A sweep may list its trials one by one instead of spanning axes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import BenchError, SweepFileError
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.file import load_sweep
from bench.sweep.trial import Skipped, Trial

CPU = MachineFacts("cpu", 0)
GOOD = """\
format: 1
name: listed
base: {model: {preset: gpt2-nano}, seq_len: 32, global_batch_size: 8}
trials:
  - {micro_batch_size: 4}
  - {micro_batch_size: 8, amp_mode: bf16, optimizer.name: sgd}
  - {global_batch_size: 12, micro_batch_size: 5}
"""


def load(tmp_path: Path, text: str = GOOD):
    path = tmp_path / "listed.yaml"
    path.write_text(text)
    return load_sweep(path)


def test_each_entry_is_one_trial_over_base_in_the_order_of_the_list(tmp_path: Path) -> None:
    """No product; what an entry does not name is base's; what does not divide is skipped with its reason."""
    sweep = load(tmp_path)
    first, second, third = expand(sweep, CPU)
    assert isinstance(first, Trial)
    assert isinstance(second, Trial)
    assert (first.config.micro_batch_size, first.config.amp_mode, first.config.accumulation_steps) == (4, "fp32", 2)
    assert (second.config.optimizer.name, second.config.optimizer.momentum) == ("sgd", 0.0)
    assert second.label() == "micro_batch_size=8 amp_mode=bf16 optimizer.name=sgd global_batch_size=8"
    assert isinstance(third, Skipped)
    assert "12 is not a multiple" in third.reason


def test_a_trial_is_the_same_whether_listed_or_spanned(tmp_path: Path) -> None:
    """Its id is that of its settings."""
    listed = load(tmp_path, GOOD.split("trials:")[0] + "trials: [{micro_batch_size: 2}, {micro_batch_size: 4}]\n")
    spanned = load(tmp_path, GOOD.split("trials:")[0] + "axes: {micro_batch_size: [2, 4]}\n")
    assert [one.trial_id for one in expand(listed, CPU)] == [one.trial_id for one in expand(spanned, CPU)]


def test_devices_of_listed_trials_are_seen(tmp_path: Path) -> None:
    """The command line's word stands over base, and contradicts a list that varies the device."""
    assert load(tmp_path).devices_asked() == {"auto"}
    assert load(tmp_path).on_device("cpu").devices_asked() == {"cpu"}
    varied = load(tmp_path, GOOD.replace("{micro_batch_size: 4}", "{micro_batch_size: 4, device: cuda}"))
    assert varied.devices_asked() == {"auto", "cuda"}
    with pytest.raises(BenchError, match="has device as an axis"):
        varied.on_device("cpu")


MISTAKES = [
    # replace, by, line, what is said
    ("amp_mode: bf16", "amp_mode: bf61", 6, ["trials[1].amp_mode = bf61", "Did you mean bf16?"]),
    ("amp_mode: bf16", "amp: bf16", 6, ["trials[1].amp is not a known key", "Did you mean amp_mode?"]),
    ("optimizer.name: sgd", "optimizer: {nam: sgd}", 6, ["trials[1].optimizer.nam is not a known key", "name"]),
    ("optimizer.name: sgd", "micro_batch: {max: 4}", 6, ["trials[1].micro_batch is not a known key"]),
    ("{micro_batch_size: 4}", "{micro_batch_size: {max: 4}}", 5, ["a whole number"]),
    ("{micro_batch_size: 4}", "{}", 5, ["trials[0] = {} is empty"]),
    ("{micro_batch_size: 4}", "4", 5, ["trials[0] = 4 is a number, not a section of keys"]),
    ("{micro_batch_size: 4}", "{accumulation_steps: 4}", 5, ["trials[0] has both global_batch_size and"]),
    (", global_batch_size: 8}", "}", 5, ["trials[0] sets no global batch size"]),
    ("trials:", "axes: {seq_len: [8]}\ntrials:", 5, ["trials conflicts with axes", "Keep one of the two"]),
    ("trials:", "skip: [{when: {seq_len: 32}, reason: x}]\ntrials:", 4, ["skip has no effect with trials"]),
    ("micro_batch_size: 8, amp_mode: bf16, optimizer.name: sgd", "micro_batch_size: 4, seq_len: 32", 1, ["same trial"]),
]


@pytest.mark.parametrize(("replace", "by", "line", "said"), MISTAKES)
def test_mistakes_are_named_with_their_line(tmp_path: Path, replace: str, by: str, line: int, said: list[str]) -> None:
    """As everywhere in a sweep file: line, value, way out."""
    assert GOOD.count(replace) == 1
    with pytest.raises(SweepFileError) as error:
        expand(load(tmp_path, GOOD.replace(replace, by)), CPU)
    text = str(error.value)
    assert f"listed.yaml:{line}:" in text or "same trial" in text
    for words in said:
        assert words in text


def test_neither_axes_nor_trials_is_a_fault_that_names_both(tmp_path: Path) -> None:
    """Nothing says which trials there are."""
    with pytest.raises(
        SweepFileError, match=r"axes is missing. Add axes: .* or list the trials one by one under trials"
    ):
        load(tmp_path, GOOD.split("trials:")[0])
    with pytest.raises(SweepFileError, match="axes is empty"):
        load(tmp_path, GOOD.split("trials:")[0] + "trials: []\n")
