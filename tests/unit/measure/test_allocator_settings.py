"""What torch says of its allocator is what a row says."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench.measure.allocator_settings import allocator_settings
from bench.measure.cpu import CpuDevice


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Give what torch tells, to be changed."""
    settings: dict[str, Any] = {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False}
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda: {"allocator_settings": settings})
    return settings


def test_without_settings_it_is_the_default(told: dict[str, Any]) -> None:
    """On a CPU too, where torch is not even asked."""
    assert allocator_settings() == "default"
    told["PYTORCH_CUDA_ALLOC_CONF"] = "max_split_size_mb:64"
    assert CpuDevice().allocator_settings() == "default"
    assert allocator_settings() == "max_split_size_mb:64"


def test_variable_that_torch_does_not_read_is_not_in_force(
    told: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch 2.6 and 2.7 know the new name not at all."""
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:64")
    assert allocator_settings() == "default"


def test_setting_that_is_read_and_not_followed_is_said(told: dict[str, Any]) -> None:
    """Torch 2.9 under the new name: an out-of-memory error would be blamed on settings that were not there."""
    told["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments: True"
    assert allocator_settings() == "expandable_segments: True (expandable_segments is not in force)"
    told["expandable_segments"] = True
    assert allocator_settings() == "expandable_segments: True"


def test_backend_that_tells_nothing_leaves_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """As cudaMallocAsync, which has no snapshot."""

    def refuse() -> None:
        raise RuntimeError("cudaMallocAsync does not yet support snapshots")

    monkeypatch.setattr(torch.cuda.memory, "_snapshot", refuse)
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync")
    assert allocator_settings() == "backend:cudaMallocAsync"
