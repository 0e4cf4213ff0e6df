"""Large models become small ones of the same kind, and say so."""

from __future__ import annotations

import pytest

from bench.check.reduced import LARGE_PARAMETERS, parameters_of, reduced
from bench.sweep.presets import PRESETS
from bench.workload.build import build_model


@pytest.mark.parametrize("name", PRESETS)
def test_parameter_count_is_right_to_a_few_per_cent(name: str) -> None:
    """Norms and biases are left out."""
    built = sum(parameter.numel() for parameter in build_model(PRESETS[name], 0, device="meta").parameters())
    assert parameters_of(PRESETS[name]) == pytest.approx(built, rel=0.05)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_becomes_small_and_stays_of_its_kind(name: str) -> None:
    """Head size, grouping and tied tables are those of the preset; the result can be built and run."""
    shape = PRESETS[name]
    small, words = reduced(shape)
    assert parameters_of(small) < 8_000_000
    assert (words == "") == (small == shape)
    assert small.width // small.num_heads == shape.width // shape.num_heads
    assert small.num_heads * shape.num_kv_heads == small.num_kv_heads * shape.num_heads
    assert (small.kind, small.tied_head, small.max_seq_len) == (shape.kind, shape.tied_head, shape.max_seq_len)
    if parameters_of(shape) >= LARGE_PARAMETERS:
        assert small.num_layers == min(2, shape.num_layers)
    build_model(small, 0, device="meta")


def test_what_was_cut_is_said() -> None:
    """In the words of the first line of a checklist."""
    assert reduced(PRESETS["gpt2-nano"])[1] == ""
    assert reduced(PRESETS["gpt2-mini"])[1] == "reduced to 2 of 4 blocks"
    assert reduced(PRESETS["llama-1b"])[1] == "reduced to 2 of 16 blocks, 512 of 128,256 ids, width 256 of 2048"
