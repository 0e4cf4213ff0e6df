"""`bench compare --reference`: is this machine slow?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bench.cli import main
from tests.planted import config, launches, store


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["compare", *words], env={"COLUMNS": "140"})


def put(folder: str, factor: float, seed: int, **changes: Any) -> None:
    rows = launches(
        [config(1000 * factor), config(2000 * factor, micro_batch_size=16)], rounds=3, seed=seed, drift=0.003
    )
    store(Path(folder), [{"measurement_version": 1, **row, **changes} for row in rows])


@pytest.fixture(autouse=True)
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work where one reference lies."""
    monkeypatch.chdir(tmp_path)
    put("results/reference/lab", 1.0, seed=1)


@pytest.mark.parametrize(
    ("factor", "changes", "words", "code", "said"),
    [
        (1.0, {}, [], 0, ""),
        (0.7, {}, [], 0, ""),
        (1.0, {}, ["--fail-on", "slower"], 0, ""),
        (0.7, {}, ["--fail-on", "slower"], 1, "--fail-on slower: this machine is slow"),
        (0.95, {}, ["--fail-on", "slower"], 0, ""),
        (0.95, {}, ["--fail-on", "unclear"], 1, "--fail-on unclear: whether this machine is slow"),
        (0.7, {"cpu_model": "Another"}, ["--fail-on", "slower"], 2, "the hardware is of another model"),
        (1.0, {}, ["--fail-on", "loss"], 2, "does not go with --reference"),
        (1.0, {}, ["--baseline", "micro_batch_size == 8"], 2, "leave out --baseline"),
        (
            0.7,
            {"torch_version": "2.6.0"},
            ["--fail-on", "slower"],
            2,
            "driver is another version, so this is undecided",
        ),
        (1.0, {"measurement_version": 2}, [], 2, "measurement_version is 2 here, 1 there"),
        (1.0, {"measurement_version": 2}, ["--force"], 0, "FORCED: results of different measurement versions"),
        (0.7, {"measurement_version": 2}, ["--force", "--fail-on", "slower"], 2, "another version of the method"),
    ],
)
def test_exit_codes(factor: float, changes: dict[str, Any], words: list[str], code: int, said: str) -> None:
    """A gate decides only where the hardware is of the same model."""
    put("mine", factor, seed=2, **changes)
    result = run("mine", "--reference", "lab", *words)
    assert (result.exit_code, said in result.stderr) == (code, True), result.stderr


def test_a_lost_configuration_fails_the_gate() -> None:
    """It runs on the reference machine and runs out of memory here."""
    rows = launches([config(1000), config(None, micro_batch_size=16)], seed=2)
    store(Path("mine"), [{"measurement_version": 1, **row} for row in rows])
    assert run("mine", "--reference", "lab").exit_code == 0
    result = run("mine", "--reference", "lab", "--fail-on", "slower")
    assert result.exit_code == 1
    assert "has no speed here" in result.stderr


def test_without_a_name_it_stands_last_and_takes_the_best(tmp_path: Path) -> None:
    """Data on stdout; where nothing may be compared every reference says why."""
    put("mine", 0.7, seed=2)
    result = run("mine", "--format", "json", "--reference")
    assert result.exit_code == 0, result.stderr
    assert (json.loads(result.stdout)["reference"], json.loads(result.stdout)["verdict"]) == ("lab", "slow")


def test_an_unknown_name_lists_what_there_is() -> None:
    """Names and places."""
    put("mine", 0.7, seed=2)
    result = run("mine", "--reference", "lap")
    assert result.exit_code == 2
    assert "Did you mean lab? There are: lab (results/reference/lab)" in result.stderr


def test_a_path_is_a_reference_too(tmp_path: Path) -> None:
    """Results of a colleague's machine."""
    put("mine", 0.7, seed=2)
    put("theirs", 0.7, seed=3)
    result = run("mine", "--reference", str(tmp_path / "theirs"))
    assert result.stdout.startswith("laptop runs at 1.00 times the speed of theirs (")
