"""What a rank says of its switches, and of a model that changes them under way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from bench.loop.switches import set_switches
from bench.rank.columns import facts_before, train_losses, why_invalid
from bench.rank.protocol import run_protocol
from tests.small_launch import build


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    yield
    set_switches("fp32")


@pytest.mark.parametrize(
    ("amp_mode", "dtype", "has_scaler"), [("fp32", None, False), ("bf16", "bfloat16", False), ("fp16", "float16", True)]
)
def test_facts_hold_the_switches_of_a_cpu(amp_mode: str, dtype: str | None, has_scaler: bool) -> None:
    facts = facts_before(build(amp_mode=amp_mode))
    assert facts["float32_matmul_precision"] == "highest"
    assert facts["tf32_matmul"] is None
    assert (facts["autocast_dtype"], facts["grad_scaler"]) == (dtype, has_scaler)


def test_a_model_that_changes_the_precision_while_it_trains_makes_the_launch_invalid() -> None:
    bench = build()

    def lower(*_: Any) -> None:
        torch.set_float32_matmul_precision("medium")

    bench.model.register_forward_pre_hook(lower)
    observed = run_protocol(bench)
    reason = why_invalid(bench, observed, train_losses(bench, observed))
    assert reason is not None
    assert reason.startswith("arithmetic: ")
    assert "float32_matmul_precision highest -> medium" in reason


def test_a_model_that_leaves_them_alone_is_valid() -> None:
    bench = build()
    observed = run_protocol(bench)
    assert why_invalid(bench, observed, train_losses(bench, observed)) is None
