"""A drafted sweep file is valid by the reader's own rules, and nothing in it is skipped on the machine it is for."""

from __future__ import annotations

import glob
import json
import shlex
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from bench.draft.sizes import shared_batches
from bench.draft.sources import data_source, model_source
from bench.draft.sweep_file import Asked, Draft, draft_sweep
from bench.draft.target import Target, known_gpus
from bench.errors import BenchError
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.file import load_sweep
from bench.sweep.presets import PRESETS
from bench.sweep.schema import schema_text
from bench.sweep.trial import Search, Skipped, Sweep, Trial
from bench.workload.data.corpus import load_corpus
from bench.workload.data.sequences import SequenceSource

CPU = Target("cpu", is_here=True)
A100 = Target("cuda", 8, "a100-80gb")
V100 = Target("cuda", 8, "v100-32gb", has_ampere=False)
COMMAND = "bench init --model gpt2-124m"


def targets() -> st.SearchStrategy[Target]:
    gpus = st.integers(1, 40)
    named = st.builds(
        lambda gpus, kind: Target("cuda", gpus, kind, known_gpus()[kind]), gpus, st.sampled_from([*known_gpus()])
    )
    own = st.builds(lambda gpus, ampere: Target("cuda", gpus, None, ampere, is_here=True), gpus, st.booleans())
    return st.just(CPU) | named | own


def batches() -> st.SearchStrategy[int]:
    """Draw small, round, prime and huge ones."""
    return st.integers(1, 64) | st.sampled_from([96, 509, 512, 2048, 3 * 2**20]) | st.integers(1, 1_000_000_000)


def asked(
    model: str = "gpt2-124m", data: str = "stdlib", batch: int = 512, target: Target = A100, **more: Any
) -> Asked:
    return Asked(model_source(model), data_source(data), batch, target, **more)


def read(draft: Draft, folder: Path) -> Sweep:
    """Write a draft down and read it as every command does."""
    path = folder / "drafted.yaml"
    path.write_text(draft.text, encoding="utf-8")
    return load_sweep(path)


def drafted(tmp_path: Path, **more: Any) -> Sweep:
    return read(draft_sweep(asked(**more), COMMAND), tmp_path)


def facts_of(target: Target) -> MachineFacts:
    return MachineFacts(target.device, target.gpus, target.has_ampere)


@pytest.mark.slow
@given(
    model=st.sampled_from(list(PRESETS)),
    data=st.sampled_from(["stdlib", "synthetic"]),
    batch=batches(),
    target=targets(),
    seq_len=st.none() | st.integers(1, 1024),
    name=st.none() | st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", fullmatch=True),
)
@example("gpt2-nano", "stdlib", 1, A100, 1, "2026-12-01")
@example("gpt2-nano", "stdlib", 1, CPU, 1, "null")
@example("llama-8b", "synthetic", 1_000_000_000, CPU, None, "0x10")
def test_draft_has_no_fault_and_no_skip_where_it_is_for(
    model: str, data: str, batch: int, target: Target, seq_len: int | None, name: str | None
) -> None:
    """Whatever the options, `bench plan` finds nothing wrong, and runs every combination."""
    draft = draft_sweep(asked(model, data, batch, target, seq_len=seq_len, name=name), COMMAND)
    with tempfile.TemporaryDirectory() as folder:
        sweep = read(draft, Path(folder))
    base = sweep.spec.base
    assert sweep.name == draft.name
    assert name in (None, sweep.name)
    assert (base.model.preset, base.global_batch_size, base.device) == (model, batch, target.device)
    assert seq_len in (None, base.seq_len)
    assert sweep.question.startswith("for ")
    assert sweep.question.endswith("?")
    entries = expand(sweep, facts_of(target))
    assert entries
    assert [entry.reason for entry in entries if isinstance(entry, Skipped)] == []
    jsonschema.validate(YAML(typ="safe").load(draft.text), json.loads(schema_text()))
    worlds = sweep.spec.axes.get("world_size", [1])
    assert max(worlds) <= max(1, target.gpus)
    # All the GPUs are used, or it is said why not.
    assert (max(worlds) == max(1, target.gpus)) or "no trial has as many GPUs" in draft.notes[0]


@given(gpus=st.integers(2, 40), batch=batches())
def test_global_batch_of_the_note_is_shared_by_all_gpus(gpus: int, batch: int) -> None:
    """What is advised works, and nothing nearer does."""
    assume(batch % gpus)
    near = range(max(1, batch - gpus), batch + gpus + 1)
    assert shared_batches(batch, gpus) == [size for size in near if size % gpus == 0]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=20))
@example("*")
@example("- a: 'b' \"c\" #d, {e} [f]")
@example("\u2028")
@example("\n")
def test_any_glob_stands_in_the_file_as_it_was_given(name: str) -> None:
    """YAML has its own meaning for stars, quotes, colons and more; what does not print is refused."""
    with tempfile.TemporaryDirectory() as folder:
        pattern = f"{folder}/{glob.escape(name)}.txt"
        Path(folder, f"{name}.txt").write_bytes(bytes(128))
        if not name.isprintable():
            with pytest.raises(BenchError, match="do not print"):
                data_source(pattern)
            return
        command = shlex.join(["bench", "init", "--data", pattern])
        draft = draft_sweep(Asked(model_source("gpt2-nano"), data_source(pattern), 4, CPU), command)
        assert read(draft, Path(folder)).spec.base.data.text == pattern


def test_gpus_get_every_world_size_mode_and_a_search(tmp_path: Path) -> None:
    """The axes of a node of A100."""
    sweep = drafted(tmp_path)
    assert sweep.spec.axes == {
        "world_size": [1, 2, 4, 8],
        "amp_mode": ["fp32", "tf32", "bf16", "fp16"],
        "micro_batch_size": [{"max": 512}],
    }
    assert (sweep.name, sweep.spec.base.device, sweep.spec.base.seq_len) == ("gpt2-124m-a100-80gb", "cuda", 1024)
    entries = expand(sweep, MachineFacts("cuda", 8))
    assert [type(entry) for entry in entries] == [Search] * 16


def test_cpu_gets_sizes_that_divide_and_two_modes(tmp_path: Path) -> None:
    sweep = drafted(tmp_path, model="gpt2-tiny", batch=60, target=CPU)
    assert sweep.spec.axes == {"amp_mode": ["fp32", "bf16"], "micro_batch_size": [1, 2, 4, 10, 20]}
    assert (sweep.name, sweep.spec.base.device, sweep.spec.base.seq_len) == ("gpt2-tiny-cpu", "cpu", 128)
    assert all(isinstance(entry, Trial) for entry in expand(sweep, MachineFacts("cpu", 0)))


def test_gpus_before_ampere_get_the_modes_they_compute(tmp_path: Path) -> None:
    sweep = drafted(tmp_path, target=V100)
    assert sweep.spec.axes["amp_mode"] == ["fp32", "fp16"]
    assert "older than Ampere" in sweep.text


def test_number_of_gpus_that_does_not_divide_is_left_out_and_said(tmp_path: Path) -> None:
    """In the file, and with what would work in the note."""
    draft = draft_sweep(asked(batch=500), COMMAND)
    (note,) = draft.notes
    assert note.startswith("A global batch of 500 is no multiple of 8: no trial has as many GPUs.")
    assert note.endswith("With --global-batch-size 496 or 504 one would.")
    sweep = read(draft, tmp_path)
    assert sweep.spec.axes["world_size"] == [1, 2, 4]
    assert "no multiple of 8" in sweep.text


def test_three_gpus_are_a_world_size_where_they_divide(tmp_path: Path) -> None:
    three = Target("cuda", 3, "a100-80gb")
    assert drafted(tmp_path, batch=510, target=three).spec.axes["world_size"] == [1, 2, 3]
    assert drafted(tmp_path, batch=512, target=three).spec.axes["world_size"] == [1, 2]


def test_long_updates_get_time_limits_that_they_meet(tmp_path: Path) -> None:
    """With the usual limits every launch of gpt2-124m on a CPU would be a time-out; short updates keep them."""
    slow = drafted(tmp_path, target=CPU).spec.measure
    assert (slow.start_timeout_s, slow.timeout_s) == (5000, 50_000)
    quick = drafted(tmp_path, model="gpt2-tiny", batch=16, target=CPU).spec.measure
    assert (quick.start_timeout_s, quick.timeout_s) == (120, 1800)
    assert drafted(tmp_path).spec.measure == quick


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"model": "gpt2-124"}, "--model = gpt2-124 is not one of .*Did you mean gpt2-124m"),
        ({"seq_len": 5000}, "--seq-len = 5000 exceeds max_seq_len = 1024"),
        ({"batch": 0}, "--global-batch-size = 0 is out of range"),
        ({"name": "a/b"}, "--name = a/b cannot be a folder's name"),
        ({"name": ""}, "--name = .* cannot be a folder's name"),
    ],
)
def test_wrong_settings_are_named_by_their_option(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(BenchError, match=words):
        draft_sweep(asked(**wrong), COMMAND)


def test_data_that_every_launch_would_refuse_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many tokens as a sequence and one more are enough, as the last token of a sequence is only a target."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("a.txt").write_bytes(bytes(15))
    asked_for = asked(data="a.txt", seq_len=15)
    assert draft_sweep(asked_for, COMMAND)
    corpus = load_corpus(asked_for.data.section)
    assert (asked_for.data.tokens, SequenceSource(corpus, "packed", 15, 0).num_sequences) == (corpus.tokens.size, 1)
    with pytest.raises(BenchError, match=r"^--data = a.txt has 16 tokens, too few for one sequence of --seq-len 16"):
        draft_sweep(asked(data="a.txt", seq_len=16), COMMAND)
    Path("a.bin").write_bytes(b"\1\1" * 200)
    with pytest.raises(BenchError, match="has token ids up to 257, but --model gpt2-tiny takes ids below 257"):
        draft_sweep(asked("gpt2-tiny", "a.bin"), COMMAND)
    assert draft_sweep(asked("gpt2-mini", "a.bin", seq_len=128), COMMAND)


def test_every_wrong_setting_is_named_at_once() -> None:
    with pytest.raises(BenchError) as caught:
        draft_sweep(asked(model="gpt3", batch=-1, name="a b"), COMMAND)
    assert len(str(caught.value).splitlines()) == 3


def test_head_says_how_it_was_made(tmp_path: Path) -> None:
    lines = draft_sweep(asked(), COMMAND).text.splitlines()
    assert lines[0] == "# yaml-language-server: $schema=./schema.json"
    assert f"# Written by: {COMMAND}" in lines
    assert max(map(len, lines)) <= 118
