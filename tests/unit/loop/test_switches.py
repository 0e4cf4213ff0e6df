"""TF32 switches are set for each mode anew, and read back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from bench.loop.precision import AmpMode
from bench.loop.switches import read_switches, set_switches


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    yield
    set_switches("fp32")


@pytest.mark.parametrize(
    ("order", "allowed"),
    [(("fp32", "tf32", "fp32"), [False, True, False]), (("fp16", "fp32", "bf16"), [True, False, True])],
)
def test_no_mode_inherits_the_switches_of_the_one_before(order: tuple[str, ...], allowed: list[bool]) -> None:
    """https://github.com/pytorch/helion/pull/2482"""
    seen = []
    for mode in order:
        set_switches(mode)  # type: ignore[arg-type]
        switches = read_switches()
        assert switches["tf32_matmul"] == switches["tf32_cudnn"]
        seen.append(switches["tf32_matmul"])
    assert seen == allowed


@pytest.mark.parametrize("before", ["highest", "high", "medium"])
@pytest.mark.parametrize("mode", ["fp32", "tf32", "bf16", "fp16"])
def test_older_getters_say_the_same_and_do_not_raise(mode: AmpMode, before: str) -> None:
    """torch.compile reads them; torch raises where the older and the newer switches contradict each other."""
    torch.set_float32_matmul_precision(before)
    set_switches(mode)
    allowed = mode != "fp32"
    assert torch.backends.cuda.matmul.allow_tf32 == allowed
    assert torch.backends.cudnn.allow_tf32 == allowed
    assert torch.get_float32_matmul_precision() == ("high" if allowed else "highest")
    assert read_switches()["tf32_matmul"] == read_switches()["tf32_cudnn"] == allowed
    assert read_switches()["float32_matmul_precision"] in {"ieee", torch.get_float32_matmul_precision()}


def test_user_code_that_lowers_the_precision_is_overruled() -> None:
    """A model file that sets `high` at import does not turn fp32 into TF32, whichever setter it used.

    https://github.com/facebookresearch/fairchem/pull/2108
    """
    if hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    else:
        torch.set_float32_matmul_precision("medium")
    set_switches("fp32")
    assert read_switches()["tf32_matmul"] is False
    assert read_switches()["float32_matmul_precision"] in {"ieee", "highest"}
