"""The table of GPUs that the stand-in plays."""

from __future__ import annotations

import pytest

from bench.errors import BenchError
from bench.standin.gpus import GPUS, gpu_facts, gpu_uuid


def test_facts_are_written_as_pairs() -> None:
    facts = dict(pair.split("=") for pair in gpu_facts("a100-80gb").split(";"))
    assert facts["name"] == "Stand-in NVIDIA A100-SXM4-80GB"
    assert (facts["major"], facts["minor"], facts["sms"]) == ("8", "0", "108")
    assert int(facts["memory_bytes"]) == GPUS["a100-80gb"].memory_bytes


def test_the_capacity_may_be_another() -> None:
    assert "memory_bytes=1073741824" in gpu_facts("h100-80gb", 1024**3)


@pytest.mark.parametrize("key", sorted(GPUS))
def test_the_capacity_in_the_key_is_about_the_real_one(key: str) -> None:
    gib = int(key.rsplit("-", 1)[1].removesuffix("gb"))
    assert 0.9 * gib < GPUS[key].memory_bytes / 1024**3 < 1.05 * gib


def test_an_unknown_gpu_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BenchError, match=r"has no 'a100'; it has .*a100-80gb"):
        gpu_facts("a100")


def test_a_capacity_of_nothing_is_refused() -> None:
    with pytest.raises(BenchError, match="more than 0 bytes"):
        gpu_facts("a100-80gb", 0)


def test_each_gpu_has_a_uuid_of_its_own() -> None:
    assert gpu_uuid(0) == "GPU-574a4ed1-0011-4222-8333-444455556600"
    assert len({gpu_uuid(index) for index in range(16)}) == 16
