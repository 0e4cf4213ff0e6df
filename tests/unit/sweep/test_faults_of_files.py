"""Deliberate mistakes in sweep files: each is reported with its line, its value and a way out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.errors import SweepFileError
from bench.sweep.file import load_sweep

GOOD = """\
# Does it work?
format: 1
name: good
base:
  model: {preset: gpt2-nano}
  data: {corpus: stdlib, rows: ragged}
  seq_len: 32
  global_batch_size: 8
  optimizer: {name: adamw, lr: 1.0e-3}
  schedule: {name: constant}
axes:
  micro_batch_size: [1, 2, 4]
  amp_mode: [fp32, bf16]
skip:
  - {when: {amp_mode: bf16, micro_batch_size: 4}, reason: "not wanted"}
measure: {warmup_updates: 1, updates: 2}
"""

BATCH = "  global_batch_size: 8\n"
MICRO = "  micro_batch_size: [1, 2, 4]\n"
AMP = "  amp_mode: [fp32, bf16]\n"
SKIP = '{when: {amp_mode: bf16, micro_batch_size: 4}, reason: "not wanted"}'

MOST_MESSAGES = 1

MISTAKES = [
    # replace, by, line, what the message must say
    ("micro_batch_size: [1, 2, 4]", "micro_batch_size: {max: 0}", 12, ["max = 0 is out of range", "at most 1,024"]),
    ("micro_batch_size: [1, 2, 4]", 'micro_batch_size: {max: "9"}', 12, ["is not a whole number", "such as 256"]),
    ("micro_batch_size: [1, 2, 4]", "micro_batch_size: {most: 9}", 12, ["a section of keys", "Write the values as a"]),
    (
        "[1, 2, 4]",
        "[1, {max: 0}]",
        12,
        ["is a search, which cannot be one value of a list", "Write axes: {micro_batch_size: {max: N}}"],
    ),
    (
        "{preset: gpt2-nano}",
        "{preset: gpt2-nano, depth: 3}",
        5,
        ["base.model.depth is not a known key", "Known here: preset, factory, args"],
    ),
    ("seq_len: 32", "seq_length: 32", 7, ["base.seq_length is not a known key", "Did you mean seq_len?"]),
    ("seq_len: 32", "block_size: 32", 7, ["base.block_size", "Did you mean seq_len?"]),
    ("rows: ragged", "row: ragged", 6, ["base.data.row is not a known key", "Did you mean rows?"]),
    ("  seq_len: 32", "  rows: packed", 7, ["base.rows", "Did you mean base.data.rows?"]),
    ("  seq_len: 32", "  data.tail: keep", 7, ["base.data.tail", "data: {tail: ...}"]),
    ("gpt2-nano", "gpt2-nanno", 5, ["base.model.preset = gpt2-nanno", "Did you mean gpt2-nano?"]),
    ("{preset: gpt2-nano}", "gpt2-nano", 5, ["base.model = gpt2-nano is text", "Write model: {preset:"]),
    ("{preset: gpt2-nano}", "{}", 5, ["base.model.preset = null names no model", "Add preset: gpt2-mini, factory:"]),
    ("amp_mode: [fp32, bf16]", "amp_mode: [off, bf16]", 13, ["axes.amp_mode[0] = off", "Did you mean fp32?"]),
    ("[fp32, bf16]", "[fp32,\n    bf61]", 14, ["axes.amp_mode[1] = bf61", "Did you mean bf16?"]),
    ("  seq_len: 32", "  param_dtype: [off]", 7, ["param_dtype = [off] is a list", "under axes: param_dtype: [off]"]),
    ("seq_len: 32", 'seq_len: "32"', 7, ['base.seq_len = "32"', "Remove the quotes: 32."]),
    ("seq_len: 32", "seq_len: true", 7, ["base.seq_len = true is a boolean", "a whole number"]),
    ("seq_len: 32", "seq_len: 32.0", 7, ["base.seq_len = 32.0", "Write 32."]),
    ("seq_len: 32", "seq_len: 0", 7, ["base.seq_len = 0 is out of range", "at least 1", "Use 1 or more."]),
    ("seq_len: 32", "seq_len:", 7, ["base.seq_len = null is empty", "or remove it."]),
    ("seq_len: 32", "seq_len: [16, 32]", 7, ["one value is needed", "Put the list under axes: seq_len: [16, 32]"]),
    ("seq_len: 32", "seq_len: 2048", 7, ["base.seq_len = 2048 exceeds max_seq_len = 1024 of gpt2-nano", "llama-1b"]),
    ("lr: 1.0e-3", "lr: 0", 9, ["base.optimizer.lr = 0 is out of range", "more than 0"]),
    ("lr: 1.0e-3", "lr: .nan", 9, ["base.optimizer.lr = nan is not a finite number"]),
    ("lr: 1.0e-3", "beta1: 1.0", 9, ["base.optimizer.beta1 = 1.0", "less than 1"]),
    ("lr: 1.0e-3", "momentum: 0.9", 9, ["momentum = 0.9 has no effect with optimizer adamw", "optimizer.name sgd"]),
    ("{name: adamw, lr: 1.0e-3}", "{name: sgd, beta2: 0.9}", 9, ["beta2 = 0.9 has no effect", "adamw"]),
    ("{name: constant}", "{name: cosine}", 10, ["base.schedule.name = cosine needs", "total_updates, such as"]),
    (
        "{name: constant}",
        "{name: constant, total_updates: 9}",
        10,
        ["total_updates = 9 has no effect", "linear or cosine"],
    ),
    (
        "{name: constant}",
        "{name: linear, lr_warmup_updates: 9, total_updates: 9}",
        10,
        ["lr_warmup_updates = 9 is not less than", "Use less than 9"],
    ),
    ("rows: ragged", "rows: ragged, tail: drop", 6, ["tail = drop has no effect", "Add data.sequences_per_epoch"]),
    (
        "rows: ragged",
        "rows: ragged, tail: drop, sequences_per_epoch: 7",
        6,
        ["tail = drop leaves no update", "7 sequences", "global batch of 8"],
    ),
    (
        "rows: ragged",
        "sequences_per_epoch: 1000000",
        6,
        ["sequences_per_epoch = 1000000 has no effect", "232 sequences"],
    ),
    ("rows: ragged", "tokens: a.bin", 6, ["base.data.tokens = a.bin is a second data source", "Keep one of"]),
    ("corpus: stdlib", "tokens: a.bin", 6, ["base.data.rows = ragged needs document borders", "packed"]),
    ("corpus: stdlib", "end_of_text: 3", 6, ["end_of_text = 3 has no effect without data.tokens or data.tokenizer"]),
    ("rows: ragged", "jsonl: a", 6, ["base.data.jsonl = a is a second data source, beside data.corpus"]),
    ("rows: ragged", "text_column: a", 6, ["base.data.text_column = a has no effect without data.jsonl or data.parq"]),
    (
        "corpus: stdlib",
        "jsonl: a, text_column: b, token_column: c",
        6,
        ["base.data.token_column = c is a second kind of column, beside data.text_column", "Keep text_column, or"],
    ),
    (
        "corpus: stdlib",
        "parquet: a, completion_column: b, text_column: c",
        6,
        ["base.data.completion_column = b is a second kind of column, beside data.text_column"],
    ),
    ("rows: ragged", "tokenizer: a", 6, ["base.data.tokenizer = a has no effect without data.text, data.jsonl or"]),
    (
        "corpus: stdlib",
        "jsonl: a, tokenizer: b, token_column: c",
        6,
        ["base.data.tokenizer = b has no effect beside data.token_column", "Keep one of the two"],
    ),
    ("rows: ragged", "token_dtype: uint32", 6, ["base.data.token_dtype = uint32 has no effect without data.tokens"]),
    ("corpus: stdlib", "tokens: a, end_of_text: 1, token_dtype: u2", 6, ["= u2 is not one of uint16, uint32, int64"]),
    ("corpus: stdlib", "synthetic: {vocab_size: 999}", 6, ["vocab_size = 999 exceeds vocab_size = 257 of gpt2-nano"]),
    (
        "corpus: stdlib",
        "synthetic: {mean_tokens: 3, min_tokens: 4}",
        6,
        ["min_tokens = 4 is more than mean_tokens = 3"],
    ),
    (
        "corpus: stdlib",
        "synthetic: {mean_tokens: 9, max_tokens: 8}",
        6,
        ["max_tokens = 8 is less than mean_tokens = 9"],
    ),
    (
        "  seq_len: 32",
        "  gradient_sync: every",
        7,
        ["gradient_sync = every has no effect with one rank", "world_size 2"],
    ),
    ("  seq_len: 32", "  activation_checkpointing: yes", 7, ["= yes is not one of false, true, non_reentrant"]),
    ("  seq_len: 32", "  activation_checkpointing: reentrnt", 7, ["Did you mean reentrant?"]),
    ("  seq_len: 32", "  amp_mode: bf16", 7, ["base.amp_mode = bf16 has no effect: axes.amp_mode", "Remove one"]),
    (AMP, "  param_dtype: [fp32, bf16]\n  amp_modes: [fp32]\n", 14, ["axes.amp_modes", "Did you mean amp_mode?"]),
    (AMP, AMP + "  rows: [packed]\n", 14, ["axes.rows is not a known key", "Did you mean data.rows?"]),
    (AMP, AMP + "  seed: []\n", 14, ["axes.seed = [] is empty", "at least one"]),
    (AMP, AMP + "  seed: 3\n", 14, ["axes.seed = 3 is a number, not a list", "Write [3]"]),
    (AMP, AMP + "  seed: {max: 3}\n", 14, ["axes.seed = {max: 3}", "not a list"]),
    (AMP, AMP + "  seed: [1, 2, 1]\n", 14, ["axes.seed[2] = 1 is listed twice"]),
    (
        AMP,
        AMP + "  optimizer.weight_decay: [0.1, 1e-1]\n",
        14,
        ["axes.optimizer.weight_decay[1] = 0.1 is listed twice"],
    ),
    (AMP, AMP + "  device: [auto, cpu]\n", 14, ["axes.device[0] = auto becomes cpu or cuda", "List cpu and cuda"]),
    (AMP, AMP + "  accumulation_steps: [1]\n", 14, ["accumulation_steps = [1] conflicts with", "Keep one"]),
    (BATCH, BATCH + "  accumulation_steps: 2\n", 9, ["accumulation_steps = 2 conflicts with", "Keep one"]),
    (BATCH, "", 4, ["base sets no global batch size", "Add global_batch_size"]),
    (AMP, AMP + "  world_size: [3, 5]\n", 8, ["global_batch_size = 8 is not a multiple", "6 or 9"]),
    (MICRO, "  seed: [1]\n", 15, ["micro_batch_size = 4 is the same in every trial", "Name an axis: seed, amp_mode"]),
    (
        "amp_mode: bf16,",
        "amp_mode: fp16,",
        15,
        ["skip[0].when.amp_mode = fp16 is not a value of axes.amp_mode", "fp32, bf16"],
    ),
    ("amp_mode: bf16,", "amp_mod: bf16,", 15, ["skip[0].when.amp_mod is not a known key", "Did you mean amp_mode?"]),
    ("amp_mode: bf16,", "accumulation_steps: 5,", 15, ["matches no trial", "remove the rule"]),
    (SKIP, "{when: {}, reason: x}", 15, ["skip[0].when = {} is empty"]),
    (SKIP, "{when: {amp_mode: bf16}}", 15, ["skip[0].reason is missing", "Add reason:"]),
    (SKIP, '{when: {amp_mode: bf16}, reason: " "}', 15, ["skip[0].reason", "Say why"]),
    (SKIP, "{when: {amp_mode: [fp32, bf16]}, reason: all}", 11, ["nothing to run", "6 combinations", "because all"]),
    ("updates: 2}", "updates: -2}", 16, ["measure.updates = -2", "at least 1"]),
    ("updates: 2}", "preset: quick}", 16, ["measure.warmup_updates = 1 conflicts with preset", "Use either"]),
    (
        "{warmup_updates: 1, updates: 2}",
        "{preset: quick, updates: 2}",
        16,
        ["measure.updates = 2 conflicts with preset"],
    ),
    ("{warmup_updates: 1, updates: 2}", "{preset: quik}", 16, ["measure.preset = quik", "Did you mean quick?"]),
    ("updates: 2}", "update: 2}", 16, ["measure.update is not a known key", "Did you mean updates?"]),
    ("updates: 2}", "timeout_s: 30 min}", 16, ["measure.timeout_s = 30 min is text", "without a unit"]),
    ("name: good", "name: so good", 3, ["name = so good cannot be a folder's name", "hyphen"]),
    ("name: good", "name: ../good", 3, ["cannot be a folder's name"]),
    ("name: good", "name: 2026", 3, ["name = 2026 is a number, not text", 'Put quotes round it: "2026"']),
    ("name: good\n", "", 1, ["name is missing", "Add name:"]),
    ("format: 1", "format: 2", 2, ["format = 2 is newer than this bench", "Update bench"]),
    ("format: 1", "format: true", 2, ["format = true", "Write format: 1"]),
    ("format: 1", "format: one", 2, ["format = one", "Write format: 1"]),
    ("format: 1\n", "", 1, ["format is missing", "Add format: 1"]),
    ("name: good", "name: good\nname: better", 4, ["name is written twice, first on line 3", "Keep one"]),
    ("seq_len: 32", "seq_len: 32\n  seq_len: 64", 8, ["base.seq_len is written twice, first on line 7"]),
    ("seq_len: 32", "3: 32", 7, ["base.3 is not a known key"]),
    ("seq_len: 32", "seq_len: &length 32", 7, ["may not use an anchor"]),
    ("  seq_len: 32", "  seq_len: 32\n  ~: 5", 8, ["base.null is not a known key"]),
    ("  amp_mode: [fp32, bf16]", "  amp_mode: [fp32, bf16]\n  null: [3]", 14, ["axes.null is not a known key"]),
    ("  amp_mode: [fp32, bf16]", "  amp_mode: [fp32, bf16]\n  true: [3]", 14, ["axes.true is not a known key"]),
    ("  amp_mode: [fp32, bf16]", "  amp_mode: [fp32, bf16]\n  4: [3]", 14, ["axes.4 is not a known key"]),
    ("  amp_mode: [fp32, bf16]", "  amp_mode: [fp32, bf16]\n  2026-01-02: [3]", 14, ["axes.2026-01-02 is not a known"]),
    ("updates: 2}", "updates: 2, ? : 4}", 16, ["measure.null is not a known key"]),
    ("seq_len: 32", "seq_len: !!int 32", 7, ["may not use a tag"]),
    ("  seq_len: 32", "  <<: {seq_len: 32}", 7, ["may not use a merge key"]),
    ("  seq_len: 32", "\tseq_len: 32", 7, ["not YAML", "a tab", "Indent with spaces"]),
    ("seq_len: 32", "seq_len: 32: 64", 7, ["not YAML", "a colon"]),
    ("[1, 2, 4]", "[1, 2, 4", 13, ["not YAML", "Close it with ]"]),
    ('"not wanted"', '"not wanted', 15, ["not YAML", "Close the quote"]),
    ("name: good", "name: g\x07ood", 3, ["not YAML", "U+0007"]),
    ("measure: {", "---\nmeasure: {", 16, ["not YAML", "a second document"]),
]


def faults_of(path: Path) -> tuple[str, ...]:
    with pytest.raises(SweepFileError) as caught:
        load_sweep(path)
    assert caught.value.exit_code == 2
    return caught.value.faults


def write(folder: Path, text: str) -> Path:
    path = folder / "mistake.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_file_that_the_mistakes_are_put_into_is_good(tmp_path: Path) -> None:
    """Without a mistake nothing is reported."""
    sweep = load_sweep(write(tmp_path, GOOD))
    assert (sweep.name, sweep.axes, sweep.question) == ("good", ("micro_batch_size", "amp_mode"), "Does it work?")
    assert sweep.text == GOOD


@pytest.mark.parametrize(("old", "new", "line", "words"), MISTAKES, ids=[repr(m[1].strip()[:40]) for m in MISTAKES])
def test_a_mistake_is_reported_with_its_line_and_a_way_out(
    tmp_path: Path, old: str, new: str, line: int, words: list[str]
) -> None:
    """One mistake gives one message, on its line, that says what, with the value, and what to do."""
    assert GOOD.count(old) == 1
    path = write(tmp_path, GOOD.replace(old, new))
    faults = faults_of(path)
    about_this = [fault for fault in faults if fault.startswith(f"{path}:{line}: ")]
    assert any(all(word in fault for word in words) for fault in about_this), faults
    assert len(faults) <= MOST_MESSAGES, "one mistake drags others behind it"
    for fault in faults:
        assert "Input should" not in fault
        assert "Extra inputs" not in fault
        assert fault.endswith((".", "?"))


def test_five_mistakes_are_reported_together(tmp_path: Path) -> None:
    """Faults in different sections and of different kinds all appear, in the order of the file."""
    text = GOOD
    for old, new in [
        ("gpt2-nano", "gpt2-nanno"),
        ("seq_len: 32", 'seq_len: "32"'),
        ("{name: constant}", "{name: cosine}"),
        ("[fp32, bf16]", "[fp32, bf16, bf16]"),
        ("updates: 2}", "update: 2}"),
        ("format: 1\n", "format: 1\nformat: 1\n"),
    ]:
        text = text.replace(old, new)
    path = write(tmp_path, text)
    lines = [int(fault.removeprefix(f"{path}:").split(":", 1)[0]) for fault in faults_of(path)]
    assert lines == [3, 6, 8, 11, 14, 17]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["the file is empty", "bench init quickstart"]),
        (b"# only a comment\n", ["the file is empty"]),
        (b"- format: 1\n", ["not a list"]),
        (b"hello\n", ["not one value"]),
        (b"format: 1\nname: caf\xe9\n", [":2: ", "not utf-8", "0xe9", "save it as utf-8"]),
        (b"[" * 5000, ["nested too deeply"]),
        (b"{a: " * 5000, ["nested too deeply"]),
    ],
)
def test_a_file_that_is_no_sweep_is_told_what_it_is(tmp_path: Path, content: bytes, words: list[str]) -> None:
    """Empty, foreign and broken files get a sentence, not a stack trace."""
    path = tmp_path / "odd.yaml"
    path.write_bytes(content)
    (fault,) = faults_of(path)
    assert all(word in fault.lower() for word in words)


def test_a_missing_file_names_the_one_that_was_meant(tmp_path: Path) -> None:
    """A slip in the file name is answered with the name that exists."""
    write(tmp_path, GOOD)
    (fault,) = faults_of(tmp_path / "mistaek.yaml")
    assert "no such file" in fault
    assert f"Did you mean {tmp_path / 'mistake.yaml'}?" in fault


def test_a_missing_file_in_a_missing_folder_points_to_an_example(tmp_path: Path) -> None:
    """There is nothing near to suggest, so what writes a file that works is named."""
    (fault,) = faults_of(tmp_path / "none" / "x.yaml")
    assert "`bench init quickstart` writes one that works" in fault


def test_a_folder_is_answered_with_the_files_in_it(tmp_path: Path) -> None:
    """The user gave results/ or sweeps/ instead of a file."""
    path = write(tmp_path, GOOD)
    (fault,) = faults_of(tmp_path)
    assert "folder" in fault
    assert str(path) in fault


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_says_so(tmp_path: Path) -> None:
    """The operating system's reason is passed on."""
    path = write(tmp_path, GOOD)
    path.chmod(0)
    assert "cannot be read" in faults_of(path)[0]


def test_too_many_combinations_are_refused_before_they_are_made(tmp_path: Path) -> None:
    """A product that would take weeks is a slip."""
    many = ", ".join(str(number) for number in range(2000))
    path = write(tmp_path, GOOD.replace("[fp32, bf16]", f"[fp32, bf16]\n  seed: [{many}]"))
    assert any("12,000 combinations" in fault and "10,000" in fault for fault in faults_of(path))


def test_numbers_read_as_yaml_1_2_says(tmp_path: Path) -> None:
    """1e-3 is a number, off is text, 010 is ten."""
    text = GOOD.replace("lr: 1.0e-3", "lr: 1e-3").replace("seq_len: 32", "seq_len: 032")
    base = load_sweep(write(tmp_path, text)).spec.base
    assert (base.optimizer.lr, base.seq_len) == (0.001, 32)


def test_the_question_is_the_first_comment(tmp_path: Path) -> None:
    """The schema line is for editors; the question may go on over lines and may say that it is one."""
    for head, question in [
        ("# yaml-language-server: $schema=./schema.json\n# Question: is it\n# fast?\n# No.\n", "is it fast?"),
        ("# A remark\n# and more\n", "A remark"),
        ("", ""),
    ]:
        assert load_sweep(write(tmp_path, head + GOOD.removeprefix("# Does it work?\n"))).question == question
