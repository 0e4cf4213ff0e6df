"""What data a sweep reads, and where it says so."""

from __future__ import annotations

from typing import Any

import pytest

from bench.sweep.data_files import data_specs, place_of, setting_of
from bench.sweep.fields import FILE_SOURCES, SweepSpec


def named(base: dict[str, Any], axes: dict[str, Any], trials: list[dict[str, Any]] | None = None) -> list[Any]:
    """List the files that a sweep of this content names, with their places."""
    settings = {"model": {"preset": "gpt2-nano"}, "seq_len": 8, "global_batch_size": 8, "data": base}
    content = {"format": 1, "name": "s", "base": settings, "axes": axes} | ({"trials": trials} if trials else {})
    found = []
    for data, places in data_specs(SweepSpec.model_validate(content)):
        key = next(key for key in FILE_SOURCES if getattr(data, key) is not None)
        found.append((places[f"data.{key}"], key, getattr(data, key)))
    return found


@pytest.mark.parametrize("key", FILE_SOURCES)
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
    assert sorted(value for *_, value in some) == ["new", "old"]


def test_whole_section_is_looked_into() -> None:
    """An axis may replace all of data."""
    assert named({"text": "old"}, {"data": [{"text": "new"}, {"corpus": "stdlib"}]}) == [
        (("axes", "data", 0, "text"), "text", "new")
    ]


def test_data_that_differ_in_their_use_alone_are_looked_at_once() -> None:
    """Rows and epochs change no file; a column does."""
    axes = {"data.rows": ["ragged", "packed"], "data.sequences_per_epoch": [10, 20]}
    assert len(named({"jsonl": "a"}, axes)) == 1
    assert len(named({"jsonl": "a"}, axes | {"data.text_column": ["a", "b"]})) == 2


def test_message_is_placed_at_the_setting_it_begins_with() -> None:
    """One about a row is placed where the file is named, whatever the file is called."""
    places = {"data.jsonl": ("base", "data", "jsonl"), "data.text_column": ("axes", "data.text_column", 1)}
    assert place_of("data.text_column = a is no column of x", places) == ("axes", "data.text_column", 1)
    assert place_of("data.jsonl:3: text is null", places) == ("base", "data", "jsonl")
    assert setting_of("data.jsonl:3: text is null") is None
    assert place_of("data.end_of_text = 3 is no id", places) == ("base", "data", "jsonl")
