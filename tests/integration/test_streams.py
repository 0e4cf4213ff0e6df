"""Streams that are closed, full or read no more; folders that are gone, or take nothing: words and an exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pytest
from click.testing import CliRunner

from bench.cli import COMMANDS, main
from tests import planted
from tests.patience import PATIENCE_S
from tests.requirements import require

pytestmark = pytest.mark.slow

PRINTING: dict[str, Sequence[str]] = {
    "--help": (),
    "--version": (),
    "sweep": ("--help",),
    "plan": ("SWEEP",),
    "show": ("RESULTS", "--format", "json"),
    "compare": ("RESULTS", "--fail-on", "slower"),
    "recommend": ("RESULTS",),
    "plot": ("RESULTS", "--kind", "memory-throughput"),
    "report": ("RESULTS",),
    "env": ("--device", "cpu"),
    "schema": (),
    "check": ("--help",),
    "init": ("--help",),
    "run": ("--help",),
}
"""Every command, as something to print; what it exits with is 0, or 1 where a candidate is slower."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Store results of two configurations, the second slower, and a sweep file."""
    folder = tmp_path_factory.mktemp("places")
    rows = planted.launches(
        [planted.config(speed, micro_batch_size=size, **planted.PROVEN) for speed, size in ((1000, 4), (500, 8))]
    )
    return {
        "RESULTS": planted.store(folder / "results", rows),
        "SWEEP": Path(__file__).parents[2] / "sweeps" / "quickstart.yaml",
    }


def ends_of(places: dict[str, Path], tmp_path: Path, stdout: int | IO[Any]) -> dict[str, tuple[Any, str]]:
    """Run every command with this stdout; give the exit code of each and what it said on stderr."""
    asked = [
        [name, *(str(places.get(argument, argument)) for argument in arguments)] for name, arguments in PRINTING.items()
    ]
    command = [sys.executable, "-m", "tests.integration.every_command", str(tmp_path / "ends.json"), json.dumps(asked)]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return dict(zip(PRINTING, json.loads((tmp_path / "ends.json").read_text()), strict=True))


def test_every_command_is_tried() -> None:
    """A new one is added above."""
    assert set(PRINTING) >= set(COMMANDS)


def test_data_that_stdout_cannot_take_is_an_error_of_storage(places: dict[str, Path], tmp_path: Path) -> None:
    """Exit 4 with the system's word, as for a results file; no traceback."""
    with Path("/dev/full").open("w") as full:
        ends = ends_of(places, tmp_path, full)
    assert {name: code for name, (code, _) in ends.items()} == dict.fromkeys(PRINTING, 4)
    for name, (_, said) in ends.items():
        assert said.splitlines()[-1] == "Error: stdout cannot be written: No space left on device.", name
        assert "Traceback" not in said, name


def test_reader_that_went_away_changes_neither_exit_code_nor_words(places: dict[str, Path], tmp_path: Path) -> None:
    """As under `| head`: the command does what it was asked for, a gate for CI too, and says nothing of the pipe."""
    reader, writer = os.pipe()
    os.close(reader)
    ends = ends_of(places, tmp_path, writer)
    os.close(writer)
    told = ends_of(places, tmp_path, subprocess.DEVNULL)
    assert ends == told
    assert {name for name, (code, _) in ends.items() if code != 0} == {"compare"}
    assert ends["compare"][0] == 1


@pytest.mark.parametrize("closed", [(2,), (0, 1, 2)])
def test_closed_streams_are_not_taken_for_files(lab: Any, closed: Sequence[int]) -> None:
    """`2>&-`: a pipe of the launch would get the number, and the rank would lose what it was to report."""
    lab.sweep(lambda document: document.update(axes={"micro_batch_size": [2]}))
    folder = lab.folder / "results"
    command = [sys.executable, "-m", "bench.cli", "sweep", str(lab.folder / "sweep.yaml"), "--out", str(folder)]
    shell = ["sh", "-c", 'exec "$@" ' + " ".join(f"{number}>&-" for number in closed), "sh", *command, "--no-plot"]
    assert subprocess.run(shell, capture_output=True, timeout=PATIENCE_S).returncode == 0
    assert lab.rows()["outcome"].tolist() == ["ok"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["sweep", "RESULTS/none.yaml"],
        ["run", "--model", "gpt2-nano", "--global-batch-size", "4"],
        ["check", "--model", "gpt2-nano"],
        ["compare", "RESULTS", "--run"],
        ["env"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_deleted_current_folder_is_named_before_anything_starts(
    places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """No interpreter can be started from there; what only reads goes on."""
    results = str(places["RESULTS"])
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    end = CliRunner().invoke(main, [argument.replace("RESULTS", results) for argument in arguments])
    assert end.exit_code == 2
    assert end.stderr == "Error: The current folder is gone: No such file or directory. Change to another one (cd).\n"
    assert CliRunner().invoke(main, ["show", results]).exit_code == 0


@pytest.fixture(params=["read-only", "full"])
def unwritable(request: pytest.FixtureRequest, places: dict[str, Path], tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Give a copy of the results on a disk that takes no more, and the system's word for it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = _mount("-t", "tmpfs", "-o", "size=32m", "tmpfs", str(disk))
    require("mount", None if mounted else "only root can mount, where the container allows it")
    try:
        for path in places["RESULTS"].iterdir():
            if path.is_file():
                (disk / path.name).write_bytes(path.read_bytes())
        if request.param == "read-only":
            assert _mount("-o", "remount,ro", str(disk))
            yield disk, "Read-only file system"
        else:
            _fill(disk / "filler")
            yield disk, "No space left on device"
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def _mount(*arguments: str) -> bool:
    return os.getuid() == 0 and subprocess.run(["mount", *arguments], capture_output=True).returncode == 0


def _fill(path: Path) -> None:
    """Take all the room there is."""
    try:
        with path.open("wb", buffering=0) as file:
            while file.write(b"\0" * 4096):
                pass
    except OSError:
        return


@pytest.mark.parametrize("command", ["plot", "report"])
def test_place_that_takes_no_figure_or_page_is_named_with_the_way_out(
    unwritable: tuple[Path, str], tmp_path: Path, command: str
) -> None:
    """The results can be read and nothing can be written beside them: exit 4, and `--out` helps."""
    disk, words = unwritable
    end = CliRunner().invoke(main, [command, str(disk)])
    assert end.exit_code == 4, end.output
    assert end.stderr.startswith(f"Error: {disk}/")
    assert words in end.stderr
    assert end.stderr.endswith("Choose another place with --out.\n")
    elsewhere = tmp_path / "elsewhere"
    assert CliRunner().invoke(main, [command, str(disk), "--out", str(elsewhere)]).exit_code == 0
    assert elsewhere.exists()


PATHS: list[tuple[str, Callable[[str], list[str]]]] = [
    ("sweep SWEEP", lambda path: ["sweep", path]),
    ("sweep --out", lambda path: ["sweep", "SWEEP", "--out", path]),
    ("plan SWEEP", lambda path: ["plan", path]),
    ("run --out", lambda path: ["run", "--model", "gpt2-nano", "--global-batch-size", "4", "--out", path]),
    ("check SWEEP", lambda path: ["check", path]),
    ("compare --out", lambda path: ["compare", "RESULTS", "--run", "--out", path]),
    ("plot --out", lambda path: ["plot", "RESULTS", "--out", path]),
    ("report --out", lambda path: ["report", "RESULTS", "--out", path]),
    *((f"{name} RESULTS", lambda path, name=name: [name, path]) for name in ("show", "recommend", "plot", "report")),
]


@pytest.mark.parametrize(("name", "arguments"), PATHS, ids=[name for name, _ in PATHS])
def test_empty_path_is_refused(
    places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, arguments: Any
) -> None:
    """As `--out "$FOLDER"` gives where nobody set it: nothing is strewn into the current folder."""
    monkeypatch.chdir(tmp_path)
    end = CliRunner().invoke(main, [str(places.get(argument, argument)) for argument in arguments("")])
    assert end.exit_code == 2, end.output
    assert "the path is empty. Name one, or leave the option out." in end.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["sweep", "SWEEP"],
        ["run", "--model", "gpt2-nano", "--global-batch-size", "4"],
        ["compare", "RESULTS", "--run"],
        ["plot", "RESULTS"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_file_in_the_place_of_a_folder_is_refused(
    places: dict[str, Path], tmp_path: Path, arguments: list[str]
) -> None:
    """It stays what it is."""
    file = tmp_path / "train.py"
    file.write_text("mine")
    given = [str(places.get(argument, argument)) for argument in arguments]
    end = CliRunner().invoke(main, [*given, "--out", str(file)])
    assert end.exit_code == 2, end.output
    assert "is a file" in end.stderr
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    "arguments", [["sweep", "SWEEP"], ["sweep", "SWEEP", "--fresh"], ["run", "--model", "gpt2-nano"]], ids=" ".join
)
@pytest.mark.parametrize("out", [".", "project"])
def test_folder_that_holds_something_else_is_refused(
    places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], out: str
) -> None:
    """Neither are results strewn among its files, nor is it renamed."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text("mine")
    monkeypatch.chdir(project if out == "." else tmp_path)
    given = [str(places.get(argument, argument)) for argument in arguments]
    given += ["--global-batch-size", "4"] if arguments[0] == "run" else []
    end = CliRunner().invoke(main, [*given, "--out", out])
    assert end.exit_code == 2, end.output
    assert end.stderr.splitlines()[-1] == (
        f"Error: {out} holds train.py, and no results. Name another folder with --out, a new or an empty one."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["project"]
    assert [path.name for path in project.iterdir()] == ["train.py"]
