"""Where a sweep names files of data."""

from __future__ import annotations

from typing import Any

import pytest

from bench.sweep.data_files import named_files
from bench.sweep.fields import SweepSpec


def named(base: dict[str, Any], axes: dict[str, Any], trials: list[dict[str, Any]] | None = None) -> list[Any]:
    """List what a sweep of this content names."""
    settings = {"model": {"preset": "gpt2-nano"}, "seq_len": 8, "global_batch_size": 8, "data": base}
    content = {"format": 1, "name": "s", "base": settings, "axes": axes} | ({"trials": trials} if trials else {})
    return list(named_files(SweepSpec.model_validate(content)))


@pytest.mark.parametrize("key", ["text", "tokens"])
def test_file_is_named_in_base_in_axes_and_in_trials(key: str) -> None:
    """Each with its place; a corpus that every machine has names none."""
    assert named({"corpus": "stdlib"}, {"micro_batch_size": [1]}) == []
    assert named({key: "a"}, {"micro_batch_size": [1]}) == [(("base", "data", key), key, "a")]
    assert named({}, {f"data.{key}": ["a", "b"]}) == [
        (("axes", f"data.{key}", 0), key, "a"),
        (("axes", f"data.{key}", 1), key, "b"),
    ]
    assert named({}, {}, [{"seq_len": 4}, {f"data.{key}": "b"}]) == [(("trials", 1, f"data.{key}"), key, "b")]


def test_what_every_trial_replaces_is_left_out() -> None:
    """It need not exist."""
    assert [value for *_, value in named({"text": "old"}, {"data.text": ["new"]})] == ["new"]
    assert [value for *_, value in named({"text": "old"}, {}, [{"data.text": "new"}])] == ["new"]
    some = named({"text": "old"}, {}, [{"data.text": "new"}, {"seq_len": 4}])
    assert [value for *_, value in some] == ["old", "new"]


def test_whole_section_is_looked_into() -> None:
    """An axis may replace all of data."""
    assert named({"text": "old"}, {"data": [{"text": "new"}, {"corpus": "stdlib"}]}) == [
        (("axes", "data", 0, "text"), "text", "new")
    ]
