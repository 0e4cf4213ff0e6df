"""Each result that is given has a name of its own, and no launch counts twice."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import BenchError
from bench.report.configurations import configurations_of
from bench.report.launches import load_launches
from bench.report.named_results import names_of
from bench.report.select import load_results, select_table
from tests.planted import config, launches, store

TWO = [config(1000), config(1100, micro_batch_size=16), config(None, micro_batch_size=64)]


@pytest.fixture
def pair(tmp_path):
    """Two results of one sweep, one of them with a row that was never launched."""
    before, after = launches(TWO), launches(TWO, seed=1)
    skipped = {**before[0], "trial_id": "f" * 12, "outcome": "skipped", "round": None, "attempt": None}
    return [
        store(tmp_path / name, [*rows, skipped | {"started_utc": None, "timed_s": None}])
        for name, rows in (("before", before), ("after", [{**row, "started_utc": "2026-12-01"} for row in after]))
    ]


def test_rows_stand_side_by_side_each_under_the_name_of_its_result(pair):
    """Rounds of two results are not made into one configuration's."""
    ones = configurations_of(load_launches(pair))
    assert [one.name for one in ones[:2]] == ["fp32 8 x 8, in before", "fp32 16 x 4, in before"]
    assert [len(one.speeds) for one in ones] == [3, 3, 0, 0] * 2
    assert not any(block in other.speeds for one in ones[:4] for other in ones[4:] for block in one.speeds)


def test_pooled_they_are_one_set_of_rounds(pair):
    """As if the second had added rounds to the first."""
    ones = configurations_of(load_launches(pair, pool=True))
    assert [(one.name, len(one.speeds)) for one in ones[:2]] == [("fp32 8 x 8", 6), ("fp32 16 x 4", 6)]
    assert set(load_results(pair, pool=True)["folder"]) == {"before + after"}


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("spelt", ["same", "slash", "dots", "link", "table", "relative"])
def test_a_result_named_twice_is_refused_however_it_is_spelt(pair, tmp_path, monkeypatch, pool, spelt):
    """Its rounds would double, and every interval shrink for nothing."""
    before, _ = pair
    (tmp_path / "link").symlink_to(before)
    monkeypatch.chdir(tmp_path)
    again = {
        "same": before,
        "slash": Path(f"{before}/"),
        "dots": before / ".." / "before",
        "link": tmp_path / "link",
        "table": before / "results.parquet",
        "relative": Path("before"),
    }[spelt]
    with pytest.raises(BenchError, match="would count twice"):
        load_launches([before, again], pool=pool)


def test_a_launch_in_two_results_is_refused_or_counted_once_in_a_pool(pair, tmp_path):
    """A copied folder, and a copy that was made before the sweep ended."""
    before, after = pair
    copy = tmp_path / "copy"
    shutil.copytree(before, copy)
    with pytest.raises(BenchError, match=r"9 launches of copy are in before as well.*--pool"):
        select_table([before, after, copy])
    pooled = select_table([before, after, copy], pool=True)
    assert len(pooled) == len(select_table([before, after], pool=True))
    assert [len(one.speeds) for one in configurations_of(load_launches([before, copy], pool=True))] == [3, 3, 0, 0]


def test_rows_without_a_launch_are_no_copies(pair):
    """What was skipped in both looks the same in both, and stands in both."""
    outcomes = [row["outcome"] for row in load_launches(pair)]
    assert outcomes.count("skipped") == 2


NAMES = st.sampled_from(["a", "b", "run", "run.parquet"])


@given(st.lists(st.lists(NAMES, min_size=1, max_size=3).map(lambda parts: Path("/x", *parts)), min_size=1, unique=True))
def test_names_tell_results_apart_and_are_ends_of_their_paths(paths):
    """None is longer than it must be where one part does."""
    names = names_of(paths)
    assert len(set(names)) == len(paths)
    assert all(str(path).endswith(name) for path, name in zip(paths, names, strict=True))
    if len({path.name for path in paths}) == len(paths):
        assert names == [path.name for path in paths]
