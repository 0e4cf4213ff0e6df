"""Proofs in real processes: both world sizes, the user's own code however it behaves, and inside a sweep."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.check.exchange.lines import Line, overall
from bench.check.exchange.request import ProofRequest, request_of
from bench.check.reduced import LARGE_PARAMETERS, parameters_of
from bench.drive.proofs import FORMAT, Proofs, _digest, columns_of, run_proof
from bench.errors import BenchError
from bench.launch.launcher import Launcher
from bench.record.paths import LaunchPaths, SweepPaths
from bench.sweep.expand import expand
from bench.sweep.file import load_sweep
from bench.sweep.presets import PRESETS
from bench.sweep.trial import Trial
from tests.integration.conftest import CPU, Lab
from tests.patience import HANG_S, PATIENCE_S

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"

Prove = Callable[..., dict[str, Line]]


@pytest.fixture(autouse=True)
def time_to_prove(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every proof, and its start, all the time that it may take."""
    monkeypatch.setattr("bench.drive.proofs.SWEEP_LIMIT_S", PATIENCE_S)
    monkeypatch.setattr("bench.drive.proofs._START_S", PATIENCE_S)


@pytest.fixture
def proved(tmp_path: Path, launcher: Launcher) -> Prove:
    """Prove a request in fresh processes; every wait is limited by its own time limit."""

    def prove(**settings: Any) -> dict[str, Line]:
        settings = {"working_directory": str(tmp_path), "time_limit_s": PATIENCE_S} | settings
        lines = run_proof(ProofRequest(**settings), lambda key: LaunchPaths(tmp_path / key), launcher)
        assert lines is not None
        return {line.name: line for line in lines}

    return prove


@pytest.mark.ddp
@pytest.mark.parametrize("window_mode", ["buffered", "streamed"])
@pytest.mark.parametrize("gradient_sync", ["last", "every"])
def test_two_ranks_pass(proved: Prove, gradient_sync: str, window_mode: str) -> None:
    """More than two ranks are stood for by two; one rank is proved beside."""
    lines = proved(world_size=8, gradient_sync=gradient_sync, window_mode=window_mode)
    assert overall(lines.values()) == "PASS"
    assert lines["precision"].verdict == lines["validation"].verdict == "PASS"
    line = lines["gradient_sync"]
    assert line.verdict == "PASS"
    assert (line.figure == 1.0) == (gradient_sync == "last")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("right_step", None),
        ("wrong_mean_of_means", "weighting"),
        ("wrong_dropped_window", "examples"),
        ("wrong_clip_per_micro_batch", "clipping"),
        ("wrong_schedule_per_micro_batch", "schedule"),
    ],
)
def test_examples_fail_on_their_own_line(proved: Prove, name: str, line: str | None) -> None:
    """From the folder that holds them, as a user would call them."""
    lines = proved(step=f"{name}:step", working_directory=str(EXAMPLES))
    assert [each.name for each in lines.values() if each.verdict == "FAIL"] == ([] if line is None else [line])


BROKEN = {
    "imports what is missing": ("import nowhere\n", "step", "FAIL", "No module named 'nowhere'"),
    "syntax": ("def step(:\n", "step", "FAIL", "SyntaxError"),
    "no function": ("step = 3\n", "step", "FAIL", "int, not a function"),
    "wrong parameters": ("def step(model): ...\n", "step", "FAIL", "(model, optimizer, micro_batches)"),
    "raises at import": ("raise KeyError('licence')\n", "step", "FAIL", "KeyError: 'licence'"),
    "exits at import": ("import sys; sys.exit(3)\n", "step", "FAIL", "SystemExit: 3"),
    "raises": (
        "def step(model, optimizer, micro_batches): raise OSError('no disk')\n",
        "step",
        "FAIL",
        "OSError: no disk",
    ),
    "kills itself": (
        "import os, signal\ndef step(model, optimizer, micro_batches): os.kill(os.getpid(), signal.SIGKILL)\n",
        "step",
        "FAIL",
        "SIGKILL",
    ),
    "leaves": ("import os\ndef step(model, optimizer, micro_batches): os._exit(0)\n", "step", "FAIL", "no result"),
}


@pytest.mark.parametrize(("source", "function", "verdict", "words"), BROKEN.values(), ids=BROKEN)
def test_broken_step_is_a_line_and_no_crash(
    proved: Prove, tmp_path: Path, source: str, function: str, verdict: str, words: str
) -> None:
    """The first line of the checklist says what is wrong."""
    (tmp_path / "mine.py").write_text(source)
    lines = proved(step=f"mine:{function}")
    assert list(lines) == ["runs"]
    assert lines["runs"].verdict == verdict
    assert words in lines["runs"].words


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"step": "mine"}, "--step = mine is not of the form package.module:function."),
        ({"step": "mine:stop"}, "--step = mine:stop: mine has no stop. Did you mean mine:step?"),
        ({"step": "mien:step"}, "mien cannot be imported: ModuleNotFoundError: No module named 'mien'. Modules are"),
        ({"step": "mine.inner:step"}, "No module named 'mine.inner'; 'mine' is not a package"),
        ({"model": "gpt2-namo"}, "--model = gpt2-namo is neither a preset (gpt2-nano, "),
        ({"model": "mine:build"}, "--model = mine:build: mine has no build."),
    ],
)
def test_name_that_does_not_exist_is_a_wrong_command_and_no_failed_proof(
    proved: Prove, tmp_path: Path, asked: dict[str, str], words: str
) -> None:
    """Exit code 2, as for a sweep file that is not there: nothing was proved to be wrong."""
    (tmp_path / "mine.py").write_text("def step(model, optimizer, micro_batches): ...\n")
    with pytest.raises(BenchError, match=re.escape(words)) as caught:
        proved(**asked)
    assert caught.value.exit_code == 2


def test_step_that_never_ends_is_not_proved(proved: Prove, tmp_path: Path) -> None:
    """The driver ends it soon after the time limit; on a machine so slow that it never began, the rank says so."""
    (tmp_path / "mine.py").write_text("import time\ndef step(model, optimizer, micro_batches): time.sleep(600)\n")
    lines = proved(step="mine:step", time_limit_s=HANG_S)
    assert lines["runs"].verdict == "NOT PROVEN"
    assert "it did not end within 3 s" in lines["runs"].words or "time limit" in lines["runs"].words


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def build(): raise ValueError('no weights')\n", "raised ValueError: no weights"),
        ("def build(): return [1, 2]\n", "returned list, not a torch.nn.Module"),
        ("import torch\ndef build(): return torch.nn.Linear(3, 3)\n", "fails on int64 inputs of shape (2, 3)"),
        ("import torch\ndef build(): return torch.nn.Embedding(5, 3).requires_grad_(False)\n", "trainable parameter"),
        ("import torch\ndef build(): return torch.nn.Flatten(0)\n", "trainable parameter"),
    ],
)
def test_broken_model_is_a_line_and_no_crash(proved: Prove, tmp_path: Path, source: str, words: str) -> None:
    """What the factory did is said in its own words."""
    (tmp_path / "mine.py").write_text(source)
    lines = proved(model="mine:build")
    assert (lines["runs"].verdict, list(lines)) == ("FAIL", ["runs"])
    assert words in lines["runs"].words


def test_own_model_is_proved_with_its_class_weights(proved: Prove, tmp_path: Path) -> None:
    """The loop of bench on a model that bench does not know."""
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def build():\n"
        "    torch.manual_seed(0)\n"
        "    model = torch.nn.Sequential(torch.nn.Embedding(7, 4), torch.nn.Linear(4, 7))\n"
        "    return {'model': model, 'class_weights': torch.arange(1.0, 8.0)}\n"
    )
    lines = proved(model="mine:build")
    assert overall(lines.values()) == "PASS"


@pytest.mark.ddp
@pytest.mark.parametrize("gradient_sync", ["last", "every"])
def test_unused_parameters_on_two_ranks_are_named_in_our_words(
    proved: Prove, tmp_path: Path, gradient_sync: str
) -> None:
    """Not in DistributedDataParallel's, whose advice the loop refuses."""
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.used, self.unused = torch.nn.Embedding(7, 7), torch.nn.Linear(3, 3)\n"
        "    def forward(self, inputs):\n"
        "        return self.used(inputs)\n"
        "build = Net\n"
    )
    words = proved(model="mine:build", world_size=2, gradient_sync=gradient_sync)["runs"].words
    assert "parameters without a gradient in a" in words
    assert "unused.weight, unused.bias" in words
    assert "find_unused_parameters" not in words


@pytest.mark.ddp
def test_step_is_proved_on_two_ranks_that_it_joins_itself(proved: Prove, tmp_path: Path) -> None:
    """Right with its counts and gradients added up over ranks; wrong without, which one rank cannot tell."""
    right = (EXAMPLES.parent / "tests" / "wrong_steps" / "right" / "on_ranks.py").read_text()
    (tmp_path / "mine.py").write_text(right)
    lines = proved(step="mine:step", world_size=2)
    assert overall(lines.values()) == "PASS"
    assert "on 2 ranks, and on one" in lines["runs"].words
    (tmp_path / "other.py").write_text(right.replace("dist.all_reduce(parameter.grad)", "pass"))
    assert overall(proved(step="other:step").values()) == "PASS"
    assert proved(step="other:step", world_size=2)["examples"].verdict == "FAIL"


def test_time_that_is_too_short_is_not_proved(proved: Prove) -> None:
    """Not even started: the reason says so, and on how many ranks."""
    lines = proved(model="gpt2-nano", time_limit_s=1e-6)
    assert overall(lines.values()) == "NOT PROVEN"
    assert lines["runs"].words == "the time limit of 1e-06 s was used up before"
    lines = proved(model="gpt2-nano", time_limit_s=1e-6, world_size=2)
    assert lines["runs"].words == "on 2 ranks: the time limit of 1e-06 s was used up before"


def test_sweep_proves_each_configuration_once_and_keeps_it(lab: Lab, launcher: Launcher, tmp_path: Path) -> None:
    """Three micro-batch sizes of one configuration are one proof, kept in the folder over resumes."""
    paths = SweepPaths(tmp_path / "kept")
    paths.folder.mkdir()
    trials = lab.trials(lab.sweep())
    proofs = Proofs(paths, launcher)
    columns = [proofs.for_trial(trial) for trial in trials]
    assert len(trials) == 3
    assert {one["proof"] for one in columns} == {"PASS"}
    assert all(one["proof_error"] < 1e-10 for one in columns)
    assert len(json.loads(paths.proofs.read_text())["proofs"]) == 1
    shutil.rmtree(paths.folder / "logs")
    assert Proofs(paths, launcher).for_trial(trials[0]) == columns[0]
    assert not (paths.folder / "logs").exists(), "nothing was launched again"


def test_proof_of_another_torch_is_made_again(lab: Lab, launcher: Launcher, tmp_path: Path) -> None:
    """Kept proofs are those of this version and of the torch that is installed; a damaged file is no proof."""
    paths = SweepPaths(tmp_path / "kept")
    paths.folder.mkdir()
    (trial, *_) = lab.trials(lab.sweep())
    kept = {"verdict": "FAIL", "lines": []}
    key = request_of(trial.config, 1.0).key()
    paths.proofs.write_text(json.dumps({"format": 1, "torch": "0.1", "proofs": {key: kept}}))
    assert Proofs(paths, launcher).for_trial(trial)["proof"] == "PASS"
    document = json.loads(paths.proofs.read_text())
    proofs = {key: kept}
    older = {"format": FORMAT - 1, "torch": document["torch"], "sha256": _digest(proofs), "proofs": proofs}
    paths.proofs.write_text(json.dumps(older))
    assert Proofs(paths, launcher).for_trial(trial)["proof"] == "PASS", "an older version proved less"
    paths.proofs.write_text('{"format": 1, "tor')
    assert Proofs(paths, launcher).for_trial(trial)["proof"] == "PASS"


def test_columns_hold_no_error_that_was_not_proved() -> None:
    """Null is missing; infinity is no figure."""
    row = Line("weighting", "NOT PROVEN", None, "time").as_row()
    assert columns_of({"verdict": "NOT PROVEN", "lines": [row]}) == {"proof": "NOT PROVEN", "proof_error": None}
    row = Line("weighting", "FAIL", float("inf"), "nan").as_row()
    assert columns_of({"verdict": "FAIL", "lines": [row]}) == {"proof": "FAIL", "proof_error": None}


def test_documented_steps_fail_and_pass_as_the_page_says(proved: Prove, tmp_path: Path) -> None:
    """docs/check.md, followed word by word: the first step fails with the quoted words, the second passes."""
    page = (EXAMPLES.parent / "docs" / "check.md").read_text()
    wrong, right = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2]
    (tmp_path / "mine.py").write_text(wrong)
    line = proved(step="mine:step")["weighting"]
    assert line.verdict == "FAIL"
    assert line.words in page
    (tmp_path / "mine.py").write_text(right)
    assert overall(proved(step="mine:step").values()) == "PASS"


@pytest.mark.ddp
def test_rows_of_a_sweep_hold_the_proof(lab: Lab) -> None:
    """Every row has verdict and figure, on two ranks too; without being asked nothing is proved."""

    def two_world_sizes(document: dict[str, Any]) -> None:
        document["axes"] = {"world_size": [1, 2], "micro_batch_size": [1, 2]}

    sweep = lab.sweep(two_world_sizes)
    lab.run(sweep, prove=True)
    rows = lab.rows()
    assert set(rows["proof"]) == {"PASS"}
    assert (rows["proof_error"] < 1e-10).all()
    assert len(json.loads(SweepPaths(lab.folder / "results").proofs.read_text())["proofs"]) == 2


def test_proof_that_finds_no_time_leaves_the_columns_empty(lab: Lab, launcher: Launcher, tmp_path: Path) -> None:
    """The sweep's own time limit ends it; it is made at the next run, and nothing wrong is kept."""
    paths = SweepPaths(tmp_path / "kept")
    paths.folder.mkdir()
    (trial, *_) = lab.trials(lab.sweep())
    proofs = Proofs(paths, launcher)
    assert proofs.for_trial(trial, seconds_left=0.0) == {}
    assert not paths.proofs.exists()
    assert proofs.for_trial(trial)["proof"] == "PASS"


SHIPPED = sorted((EXAMPLES.parent / "sweeps").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_sweep_passes(proved: Prove, path: Path) -> None:
    """Its first and its last configuration, on a CPU; the large models reduced, and said so."""
    trials = [point for point in expand(load_sweep(path).on_device("cpu"), CPU) if isinstance(point, Trial)]
    requests = {request.key(): request for request in (request_of(trial.config, PATIENCE_S) for trial in trials)}
    distinct = list(requests.values())
    for request in distinct[:1] + distinct[1:][-1:]:  # memory-parts has but one
        lines = proved(**vars(request) | {"working_directory": ""})
        assert overall(lines.values()) == "PASS", lines
        is_large = parameters_of(PRESETS[request.model]) >= LARGE_PARAMETERS
        assert ("the model was reduced to" in lines["runs"].words) == is_large
