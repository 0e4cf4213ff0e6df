"""Where a 16-bit type is emulated, decisions say so."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from bench.decide.compare import compare
from bench.decide.recommend import Question, recommend
from bench.decide.recommend_summary import recommendation_lines
from bench.record.parquet_file import table_of_rows
from bench.record.schema import schema
from bench.report.emulated import emulated_dtypes, emulation_words
from tests.planted import PROVEN, config, launches

SAID = "bf16 is emulated here, as this processor has no units for it: the speed says nothing of a machine that has"


def rows(has: list[str] | None, mode: str = "bf16", **changes: Any) -> list[dict[str, Any]]:
    """Plant fp32 and a 16-bit mode five times slower, on a processor that has these units."""
    both = {**PROVEN, "cpu_16bit_dtypes": has, **changes}
    return launches([config(5000, **both), config(1000, amp_mode=mode, **both)])


@pytest.mark.parametrize(
    ("has", "mode", "changes", "dtypes"),
    [
        ([], "bf16", {}, ["bf16"]),
        (["bf16"], "bf16", {}, []),
        (["bf16"], "fp16", {}, ["fp16"]),
        (None, "bf16", {}, []),
        ([], "bf16", {"device": "cuda"}, []),
        ([], "fp32", {}, []),
        ([], "fp32", {"param_dtype": "bf16"}, ["bf16"]),
    ],
)
def test_what_the_processor_has_no_units_for_is_emulated(
    has: list[str] | None, mode: str, changes: dict[str, Any], dtypes: list[str]
) -> None:
    """On a CPU, in rows that know what it has."""
    assert emulated_dtypes(rows(has, mode, **changes)) == dtypes


def test_end_of_a_sweep_compare_and_recommend_say_it() -> None:
    """Whichever mode is chosen: who reads that fp32 is faster must know why."""
    planted = rows([])
    assert emulation_words(planted) == SAID
    assert SAID in " ".join(recommendation_lines(table(planted)))
    assert any(SAID in caveat for caveat in recommend(planted, Question()).caveats)
    (candidate,) = compare(planted).candidates
    assert SAID in candidate.warnings


def test_nothing_is_said_where_there_are_units() -> None:
    """Nor of fp32 alone."""
    assert emulation_words(rows(["bf16"])) is None
    assert not any("emulated" in line for line in recommendation_lines(table(rows(["bf16"]))))
    assert emulation_words(rows([], "fp32")) is None


def table(planted: list[dict[str, Any]]) -> pa.Table:
    """Store rows as a result has them."""
    return table_of_rows(planted, schema())
