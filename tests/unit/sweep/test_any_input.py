"""Whatever a file holds, the answer is a sweep or a list of faults, never a stack trace."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.errors import SweepFileError
from bench.sweep.expand import MachineFacts, expand
from bench.sweep.file import load_sweep
from bench.sweep.paths import field_paths
from bench.sweep.trial import Trial

WORDS = st.sampled_from(
    [*field_paths(), "format", "name", "base", "axes", "skip", "when", "reason", "measure", "updates"]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 70),
    st.sampled_from([10**30, 0.5, 1e300, "bf16", "fp16", "16", "", "auto", "ragged", "cosine", "sgd", "gpt2-nano"]),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=5),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)
GOOD: dict[str, Any] = {
    "format": 1,
    "name": "good",
    "base": {"global_batch_size": 8, "model": {"preset": "gpt2-nano"}, "data": {"rows": "ragged"}, "optimizer": {}},
    "axes": {"micro_batch_size": [1, 2], "amp_mode": ["fp32", "bf16"]},
    "skip": [{"when": {"amp_mode": "bf16", "micro_batch_size": 2}, "reason": "so"}],
    "measure": {"updates": 3},
}
PLACES = [
    (),
    ("base",),
    ("base", "data"),
    ("base", "optimizer"),
    ("axes",),
    ("measure",),
    ("skip", 0),
    ("skip", 0, "when"),
]


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Put up to three random values into a good sweep, under keys that exist and keys that do not."""
    document: dict[str, Any] = json.loads(json.dumps(GOOD))
    for place in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=3)):
        section: Any = document
        for key in place:
            if isinstance(section, dict):
                section = section.get(str(key))
            else:
                section = section[0] if isinstance(section, list) and section else None
        if isinstance(section, dict):
            section[draw(WORDS | st.sampled_from(sorted(map(str, section)) or ["x"]))] = draw(VALUES)
    return document


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=20)
@given(documents())
def test_a_damaged_sweep_is_read_or_explained(tmp_path: Path, document: dict[str, Any]) -> None:
    """Every fault has a line of the file and ends as a sentence; what is accepted has something to run."""
    path = tmp_path / "any.yaml"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")
    lines = len(path.read_text(encoding="utf-8").splitlines())
    try:
        sweep = load_sweep(path)
    except SweepFileError as error:
        for fault in error.faults:
            match = re.fullmatch(rf"{re.escape(str(path))}:(\d+): (.+)", fault, flags=re.DOTALL)
            assert match is not None, fault
            assert 1 <= int(match[1]) <= lines
            assert match[2].endswith((".", "?"))
            assert "Input should" not in fault
    else:
        assert any(isinstance(entry, Trial) for entry in expand(sweep, MachineFacts("cuda", 10**6)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=50)
@given(st.binary(max_size=60) | st.text("{}[]:,-&*!|>'\"%@`#? \n\ta1", max_size=40).map(str.encode))
def test_any_bytes_are_answered_with_faults(tmp_path: Path, content: bytes) -> None:
    """Binary files and broken YAML are named with their line."""
    path = tmp_path / "any.yaml"
    path.write_bytes(content)
    with pytest.raises(SweepFileError) as caught:
        load_sweep(path)
    assert all(fault.startswith(f"{path}:") for fault in caught.value.faults)
