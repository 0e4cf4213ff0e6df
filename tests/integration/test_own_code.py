"""The user's own models, data and losses: the right rows where they work, and where they misbehave."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.drive.driver import run_sweep
from bench.drive.folder import make_header
from bench.errors import BenchError
from bench.sweep.file import load_sweep
from tests.integration.conftest import CPU, Brief, Silent, stands

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples" / "own_model"
MODEL = """
import os, sys, time, signal
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width=8, at=None):
        super().__init__()
        self.table, self.head, self.count = nn.Embedding(257, width), nn.Linear(width, 257), 0

    def forward(self, ids):
        self.count += 1
        if ids.shape[0] == 2 and self.count == 3:
            self.misbehave()
        return self.head(self.table(ids))

    def misbehave(self):
        pass
"""
MISBEHAVES = {
    "raises": ("raise RuntimeError('my own words')", "failed", "RuntimeError: my own words"),
    "out of memory": ("raise RuntimeError('CUDA out of memory. Tried to allocate 2 GiB')", "oom", "out of memory"),
    "no host memory": ("raise MemoryError('nothing left')", "oom", "nothing left"),
    "device assert": ("raise RuntimeError('CUDA error: device-side assert triggered')", "failed", "device-side assert"),
    "sys.exit": ("sys.exit(0)", "failed", "SystemExit"),
    "leaves": ("os._exit(0)", "failed", "no result"),
    "kill 9": ("os.kill(os.getpid(), signal.SIGKILL)", "killed", "SIGKILL"),
    "kill 6": ("os.abort()", "killed", "SIGABRT"),
    "kill 11": ("os.kill(os.getpid(), signal.SIGSEGV)", "killed", "SIGSEGV"),
    "odd bytes": ('os.write(1, bytes(range(256)) * 40000); print(\'{"outcome": "oom"}\\r50 %\\r\')', "ok", ""),
    "gigabytes": ("for _ in range(300): os.write(1, b'x' * 1_000_000)", "ok", ""),
    "unpicklable": ("self.hook = lambda: self; self.lock = __import__('threading').Lock()", "ok", ""),
}


def own(lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, **base: Any) -> Any:
    """Write the module and a sweep of it, from whose folder both are found."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MODEL + text)
    changed = {"model": {"factory": "mine:Model"}} | base
    return lab.sweep(**changed)


@pytest.mark.parametrize(("does", "outcome", "words"), MISBEHAVES.values(), ids=MISBEHAVES)
def test_misbehaving_model_gets_its_row_and_the_sweep_goes_on(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, outcome: str, words: str
) -> None:
    text = f"\nclass Mine(Model):\n    def misbehave(self):\n        {does}\n"
    sweep = own(lab, tmp_path, monkeypatch, text, model={"factory": "mine:Mine"})
    lab.run(sweep)
    rows = lab.rows()
    assert rows["outcome"].to_dict() == {1: "ok", 2: outcome, 4: "ok"}
    assert words in str(rows.loc[2, "reason"])
    logs = sum(path.stat().st_size for path in (tmp_path / "results").rglob("*.log"))
    assert logs < 100_000_000
    assert rows["user_code_hash"].nunique() == 1


def test_model_that_sleeps_is_a_hang(lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\nclass Mine(Model):\n    def misbehave(self):\n        time.sleep(3600)\n"
    sweep = own(lab, tmp_path, monkeypatch, text, model={"factory": "mine:Mine"})
    lab.run(sweep, brief=Brief(lab.trials(sweep)[1], stands("forward", 2), stall_s=0.5))
    assert lab.rows()["outcome"].to_dict() == {1: "ok", 2: "hang", 4: "ok"}


BROKEN = {
    "no module": ("mein:build", "mein cannot be imported"),
    "no function": ("mine:bild", "mine has no bild"),
    "raises": ("mine:raises", "ValueError: no weights here"),
    "list": ("mine:lists", "returned list, not a torch.nn.Module"),
    "loss": ("mine:Loses", "which looks like a loss. Expected: logits"),
    "needs labels": ("mine:Labels", "missing 1 required positional argument: 'labels'"),
}


@pytest.mark.parametrize(("factory", "words"), BROKEN.values(), ids=BROKEN)
def test_broken_contract_is_a_failed_row_that_says_what_was_expected(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factory: str, words: str
) -> None:
    """Its proof fails too, in the same sweep, and ends nothing."""
    text = """
def raises(): raise ValueError('no weights here')
def lists(): return []
class Loses(Model):
    def forward(self, input_ids, labels=None, num_items_in_batch=None, **kwargs):
        return nn.functional.cross_entropy(super().forward(input_ids).flatten(0, 1), input_ids.flatten())
class Labels(Model):
    def forward(self, input_ids, labels, **kwargs):
        return super().forward(input_ids)
"""
    sweep = own(lab, tmp_path, monkeypatch, text, model={"factory": factory})
    lab.run(sweep, prove=True)
    rows = lab.rows()
    assert set(rows["outcome"]) == {"failed"}
    assert all(words in reason for reason in rows["reason"])
    assert set(rows["proof"]) == {"FAIL"}


def test_weights_in_half_precision_say_so_where_the_scaler_refuses_them(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other modes run, under a flag: what is stored is not what param_dtype says."""

    def modes(document: dict[str, Any]) -> None:
        document["axes"] = {"amp_mode": ["fp32", "bf16", "fp16"]}

    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MODEL + "\ndef half(): return Model().half()\n")
    # AdamW's eps is 0 in float16.
    lab.run(lab.sweep(modes, model={"factory": "mine:half"}, optimizer={"name": "sgd", "lr": 0.01}))
    rows = pd.read_parquet(tmp_path / "results" / "results.parquet").set_index("amp_mode")
    assert rows["outcome"].to_dict()["fp16"] == "failed"
    assert "float16" in rows.loc["fp16", "reason"]
    assert set(rows.loc[["fp32", "bf16"], "outcome"]) == {"ok"}
    assert "weights_not_param_dtype" in rows.loc["bf16", "flags"]


DATA = """
def samples(seq_len, seed, count=200):
    made = torch.Generator().manual_seed(seed)
    return [{"input_ids": torch.randint(0, 257, (6,), generator=made)} for _ in range(count)]

def labelled(seq_len, seed):
    return [sample | {"labels": sample["input_ids"]} for sample in samples(seq_len, seed)]

class Lm(Model):
    def forward(self, input_ids, extra=None):
        return super().forward(input_ids)

def several(parameters, lr):
    return [torch.optim.SGD(parameters, lr)]

class Mean:
    unit = "example"
    def __call__(self, outputs, batch): return outputs.logsumexp(-1).mean()
    def units(self, batch): return len(batch["input_ids"])
"""


def test_own_data_are_the_same_whatever_the_cut_and_the_world_size(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal losses to within rounding; counts are those of the samples; the unit is the token."""

    def cuts(document: dict[str, Any]) -> None:
        document["axes"] = {"world_size": [1, 2], "micro_batch_size": [1, 2]}

    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MODEL + DATA)
    base = {"model": {"factory": "mine:Lm"}, "data": {"factory": "mine:labelled"}}
    lab.run(lab.sweep(cuts, **base), prove=True)
    rows = pd.read_parquet(tmp_path / "results" / "results.parquet")
    assert set(rows["outcome"]) == {"ok"}
    assert rows["final_train_loss"].max() - rows["final_train_loss"].min() < 1e-5
    assert (rows["corpus_hash"].nunique(), set(rows["unit"]), set(rows["proof"])) == (1, {"token"}, {"PASS"})
    assert (rows["valid_tokens"] == 6 * rows["sequences"]).all()
    assert (rows["units_per_s"] == rows["valid_tokens_per_s"]).all()


@pytest.mark.parametrize(
    ("base", "outcome", "words"),
    [
        ({"data": {"factory": "mine:samples"}}, "failed", "the batch needs labels"),
        ({"data": {"factory": "mine:Model"}}, "failed", "takes (width=8, at=None), and is called with (seq_len=32"),
        ({"data": {"factory": "mine:labelled", "collate": "mine:len"}}, "failed", "mine has no len"),
        ({"data": {"factory": "mine:labelled"}, "loss": {"factory": "mine:Lm"}}, "failed", "it has no method units"),
        ({"data": {"factory": "mine:samples"}, "loss": {"factory": "mine:Mean"}}, "invalid", "the mean of theirs"),
        ({"optimizer": {"factory": "mine:several"}}, "failed", "returned list, not a torch.optim.Optimizer"),
    ],
    ids=["no labels", "no data", "no collate", "no units", "mean", "no optimizer"],
)
def test_broken_data_loss_or_optimizer_is_named_with_what_was_expected(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: dict[str, Any], outcome: str, words: str
) -> None:
    def one(document: dict[str, Any]) -> None:
        document["axes"] = {"micro_batch_size": [2]}
        if "factory" in base.get("data", {}):
            document["base"]["data"] = base["data"]

    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MODEL + DATA)
    lab.run(lab.sweep(one, **({"model": {"factory": "mine:Lm"}} | base)))
    row = lab.rows().loc[2]
    assert (row["outcome"], words in row["reason"]) == (outcome, True), row["reason"]


def test_parameter_without_a_gradient_is_named_and_its_row_never_chosen(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.decide.eligible import reasons_out
    from bench.decide.question import Question
    from bench.report.configurations import configurations_of
    from bench.report.launches import load_launches

    text = "\nclass Mine(Model):\n    def __init__(self):\n        super().__init__(); self.extra = nn.Linear(2, 2)\n"
    lab.run(own(lab, tmp_path, monkeypatch, text, model={"factory": "mine:Mine"}))
    rows = lab.rows()
    assert list(rows.loc[2, "parameters_without_gradient"]) == ["extra.bias", "extra.weight"]
    assert all("no_gradient" in flags for flags in rows["flags"])
    launches = load_launches([tmp_path / "results"])
    why = reasons_out(launches, configurations_of(launches), Question(None))
    assert len(why) == 3
    assert all("flagged no_gradient" in words and "extra.bias" in words for words in why.values())


def test_changed_code_is_refused_on_resume(lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the module imports from its own folder counts too."""
    (tmp_path / "sizes.py").write_text("WIDTH = 8\n")
    text = "\nimport sizes\ndef build(): return Model(sizes.WIDTH)\n"
    sweep = own(lab, tmp_path, monkeypatch, text, model={"factory": "mine:build"})
    lab.run(sweep)
    (tmp_path / "sizes.py").write_text("WIDTH = 16\n")
    with pytest.raises(BenchError, match=r"code of mine was .* and is now"):
        lab.run(sweep)


def test_driver_never_imports_the_users_module(lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that ends its process ends a rank, and not the sweep."""
    sweep = own(lab, tmp_path, monkeypatch, "\nos._exit(0)\n")
    trials = lab.trials(sweep)
    header = make_header(sweep, [trial.config for trial in trials], CPU)
    assert list(header["user_code"]) == ["mine"]
    lab.run(sweep, prove=True)
    assert set(lab.rows()["outcome"]) == {"failed"}
    assert "mine" not in sys.modules


@pytest.mark.parametrize(
    ("name", "unit", "proof"),
    [
        ("text_classifier", "weight", "PASS"),
        ("prompt_masked_lm", "token", "PASS"),
        ("image_model", "example", "NOT PROVEN"),
    ],
)
def test_examples_run_in_a_sweep_and_say_what_is_proved(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, unit: str, proof: str
) -> None:
    """Equal losses over cuts, but for BatchNorm, which the row says."""
    monkeypatch.chdir(EXAMPLES)
    text = (EXAMPLES / f"{name}.yaml").read_text()
    path = tmp_path / "sweep.yaml"
    patient = "warmup_updates: 1, updates: 2, quality_updates: 3, timeout_s: 3600, start_timeout_s: 3600"
    path.write_text(text.replace("preset: quick, rounds: 1", f"{patient}, stall_timeout_s: 3600"))
    run_sweep(load_sweep(path), tmp_path / "results", CPU, Silent(), launcher=lab.launcher, prove=True)
    rows = pd.read_parquet(tmp_path / "results" / "results.parquet")
    assert set(rows["outcome"]) == {"ok"}
    assert (set(rows["unit"]), set(rows["proof"])) == ({unit}, {proof})
    spread = rows["final_train_loss"].max() - rows["final_train_loss"].min()
    assert (spread < 1e-5) == (proof == "PASS")
    assert rows["model_flops"].notna().all() == (name != "text_classifier") or rows["model_flops"].notna().any()
