"""What a sweep ends with: the table, what to run in a few lines, and where everything is."""

from bench.cli.ending import show_end
from tests.planted import PROVEN, config, launches, store


def test_a_sweep_ends_with_what_to_run(tmp_path, capsys):
    """Two to four lines between the table and the paths, and how to see more."""
    folder = store(tmp_path / "r", launches([config(1000, **PROVEN), config(1300, micro_batch_size=16, **PROVEN)]))
    show_end(folder, draw=False, recommend=True)
    lines = capsys.readouterr().out.rstrip().split("\n\n")[-2].splitlines()
    assert lines[0].startswith("run fp32 16 x 4: 1.")
    assert lines[1].startswith("runner-up fp32 8 x 8: -2")
    assert lines[-1] == f"more: bench recommend {folder}"
    assert len(lines) <= 5


def test_no_answer_is_one_line(tmp_path, capsys):
    """All failed: said, and the table still stands."""
    folder = store(tmp_path / "r", launches([config(None)]))
    show_end(folder, draw=False, recommend=True)
    said = " ".join(capsys.readouterr().out.split())
    assert "no recommendation: nothing to recommend at a global batch of 64: fp32 8 x 8: oom: out of memory" in said


def test_a_single_run_recommends_nothing(tmp_path, capsys):
    """One trial has no others to be compared with."""
    folder = store(tmp_path / "r", launches([config(1000)]))
    show_end(folder, draw=False)
    assert "bench recommend" not in capsys.readouterr().out
