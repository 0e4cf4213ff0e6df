"""A figure against its goal, and the harness around measurements: what is claimed, kept, and returned as exit code."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as everything
from benchmarks.figures import Figure, median_figure, share_figure
from benchmarks.harness import read_figures, run
from tests.patience import PATIENCE_S


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Figure("", "no goal", 0.5), ""),
        (Figure("", "kept", 0.99, at_least=0.98), "met"),
        (Figure("", "missed", 0.97, at_least=0.98), "not met"),
        (Figure("", "most", 3.0, at_most=2.0), "not met"),
        (Figure("", "exactly", 41, at_least=41, at_most=41), "met"),
        (Figure("", "both", 0.995, 0.99, low_at_least=0.98, low=0.985, high=1.0), "met"),
        (Figure("", "point kept, end not", 0.995, 0.99, low_at_least=0.98, low=0.97, high=1.02), "not shown"),
        (Figure("", "point missed, open", 0.985, 0.99, low_at_least=0.98, low=0.96, high=1.01), "not shown"),
        (Figure("", "missed for sure", 0.90, 0.99, low_at_least=0.98, low=0.88, high=0.92), "not met"),
        (Figure("", "slow for sure", 3.0, at_most=2.0, low=2.5, high=4.0), "not met"),
        (Figure("", "slow perhaps", 3.0, at_most=2.0, low=1.5, high=4.0), "not shown"),
        (Figure("", "nothing", None, at_most=2.0), "not shown"),
        (Figure("", "broken", None, has_failed=True), "failed"),
    ],
    ids=lambda value: value.what if isinstance(value, Figure) else None,
)
def test_a_goal_is_claimed_only_where_the_figure_shows_it(figure: Figure, verdict: str) -> None:
    """An interval that reaches over its goal shows nothing; without one the figure itself decides."""
    assert figure.verdict == verdict


def test_a_share_of_few_cases_shows_little() -> None:
    """92 of 100 may well be 95 %; 9,200 of 10,000 are not."""
    assert share_figure("M3", "", 0.92, 100, 0.93, 0.97).verdict == "not shown"
    assert share_figure("M3", "", 0.92, 10_000, 0.93, 0.97).verdict == "not met"
    assert share_figure("M1", "", 0.0, 1000, at_most=0.01).verdict == "met"


def test_a_median_of_few_samples_has_no_interval() -> None:
    """Of six the least and the most hold it with 97 %; of five they do not."""
    assert median_figure("", [1.0, 2.0, 3.0, 4.0, 5.0]).low is None
    six = median_figure("", [6.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    assert (six.low, six.reached, six.high) == (1.0, 3.5, 6.0)


@pytest.mark.parametrize(("reached", "code"), [(1.0, 1), (3.0, 0), (None, 0)])
def test_exit_code_says_whether_a_goal_is_not_met(
    reached: float | None, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not shown is said, and is no failure."""
    options = argparse.Namespace(json=tmp_path / "figures.json")
    with pytest.raises(SystemExit) as ended:
        run("one", [Figure("M9", "a figure", reached, at_least=2.0, unit="count")], options)
    assert ended.value.code == code
    assert "a figure" in capsys.readouterr().out
    document = json.loads(options.json.read_text())
    assert document["measurements"][0]["figures"][0]["reached"] == reached


def test_figures_survive_a_measurement_that_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before is kept, and the rest is named as failed."""

    def half(file: Path) -> Iterator[Figure]:
        yield Figure("", "the first half", 1.0, at_least=1.0, low=0.9, high=1.1, note="kept")
        raise RuntimeError("broken")

    def break_down(command: list[str], limit_s: float) -> int:
        del limit_s
        file = Path(command[command.index("--json") + 1])
        with pytest.raises(RuntimeError):
            run("one", half(file), argparse.Namespace(json=file))
        return 1

    monkeypatch.setattr(everything, "_run", break_down)
    first, rest = everything.measure("one", quick=True, limit_s=1.0).figures
    assert (first.verdict, first.note, first.high) == ("met", "kept", 1.1)
    assert (rest.verdict, rest.note) == ("failed", "ended with 1; its last words are above")


def test_figures_are_read_back_as_they_were(tmp_path: Path) -> None:
    """All fields, by their own names."""
    options: Any = argparse.Namespace(json=tmp_path / "figures.json")
    figures = [Figure("R6", "seconds", 0.01, at_most=0.02, unit="s"), Figure("", "a share", 0.5, note="half")]
    with pytest.raises(SystemExit):
        run("one", figures, options)
    assert read_figures(options.json) == (figures, True)
    assert read_figures(tmp_path / "nothing.json") == ([], False)


def test_a_measurement_that_takes_too_long_is_ended() -> None:
    """With everything it started."""
    assert everything._run(["sleep", "3600"], 0.1) is None
    assert everything._run(["true"], PATIENCE_S) == 0


def test_every_measurement_has_a_module_of_its_own() -> None:
    """What is listed can be run alone."""
    folder = Path(everything.__file__).parent
    assert {path.stem for path in folder.glob("*.py")} >= {*everything.LIMITS_S}
