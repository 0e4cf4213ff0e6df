"""`bench plot` writes figures beside the results, prints where, and says what it cannot draw."""

import pytest
from click.testing import CliRunner

from bench.cli import main
from tests.strategies import failed_row, quickstart_rows, write_results


@pytest.fixture
def folder(tmp_path):
    write_results(tmp_path / "quick", quickstart_rows())
    return tmp_path / "quick"


def run(*words):
    return CliRunner().invoke(main, ["plot", *map(str, words), "--kind", "memory-throughput"])


def test_figures_go_beside_the_results(folder):
    """Their paths are the data on stdout."""
    result = run(folder)
    paths = [folder / "plots" / f"memory_throughput.{kind}" for kind in ("png", "svg")]
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [str(path) for path in paths]
    assert all(path.stat().st_size for path in paths)


@pytest.mark.slow
def test_out_names_another_folder_which_several_results_need(folder, tmp_path):
    """Two results have no folder in common, so one must be named."""
    other = tmp_path / "other"
    write_results(other, [{**row, "started_utc": "2026-12-02T00:00:00Z"} for row in quickstart_rows()])
    result = run(folder, other)
    assert result.exit_code == 2
    assert "a folder for the figures with --out" in result.stderr
    assert run(folder, other, "--out", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "memory_throughput.png").exists()
    assert not (folder / "plots").exists()


def test_nothing_to_draw_is_said(tmp_path):
    """All failed: exit 2, a sentence, no file."""
    write_results(tmp_path / "bad", [failed_row(), failed_row("hang")])
    result = run(tmp_path / "bad")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "memory-throughput: no row is ok" in result.stderr
    assert not (tmp_path / "bad" / "plots").exists()


def test_a_folder_that_cannot_be_written_is_a_storage_error(folder):
    """Exit 4 names the path."""
    (folder / "plots").write_text("a file where the folder should be")
    result = run(folder)
    assert result.exit_code == 4
    assert "memory_throughput.png" in result.stderr


@pytest.mark.slow
def test_every_figure_is_drawn_by_default_and_the_rest_is_said(folder):
    """Without --kind; what has nothing to show is named on stderr and is no failure."""
    result = CliRunner().invoke(main, ["plot", str(folder)])
    assert result.exit_code == 0
    assert {line.rsplit("/")[-1] for line in result.stdout.splitlines()} == {
        f"{name}.{kind}" for name in ("memory_throughput", "heat_map") for kind in ("png", "svg")
    }
    said = [line.split(":")[:2] for line in result.stderr.splitlines()]
    assert {word for word, _ in said} == {"not drawn"}
    assert {kind for _, kind in said} >= {" scaling", " memory-breakdown", " update-times", " energy"}


def test_help_is_complete():
    """Imperative line, example, units."""
    text = run("--help").stdout
    assert "Plot results: memory against throughput, and more." in text
    assert "Example:\n    bench plot results/quickstart" in text
    assert "GiB or MiB" in " ".join(text.split())
